"""Executes the steps of one page, given as a JSON file, in this process and the current directory.

One process per page, so that torch is imported once and nothing of one page reaches another.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from missing_operators import declare_missing_operators


def exit_code(argv: list[str]) -> int:
    from procrustean.cli import main

    sys.argv = ["procrustean", *argv]
    try:
        return int(main(argv) or 0)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1


def execute(step: dict[str, Any], source: str, namespace: dict[str, Any]) -> int:
    """0 if the step succeeded. A Python block keeps the line numbers of its page: tracebacks point there."""
    kind, text = step["kind"], step["text"]
    if kind == "python":
        exec(compile("\n" * (step["line"] - 1) + text, source, "exec"), namespace)
    elif kind == "cli":
        return exit_code(shlex.split(text)[1:])
    elif kind == "bash":
        return subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", text], check=False).returncode
    elif kind == "env":
        os.environ[step["name"]] = text
    elif kind == "file":
        Path(step["name"]).parent.mkdir(parents=True, exist_ok=True)
        Path(step["name"]).write_text(text)
    return 0


def run(plan: Path, source: str) -> int:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    declare_missing_operators()
    for step in json.loads(plan.read_text()):
        title = step["name"] or step["text"].strip().splitlines()[0]
        print(f"--- {step['page']}:{step['line']}: {title}", flush=True)
        try:
            code = execute(step, source, namespace)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            code = 1
        sys.stdout.flush()
        if code:
            print(f"--- {step['page']}:{step['line']}: failed with exit code {code}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2]))
