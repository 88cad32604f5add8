"""Executes the steps of pages, each page in a process of its own and in its own directory.

Each process is forked from this one, which has imported nothing but what takes long: torch need not be imported for
every page, and nothing of one page reaches another. A line of JSON on stdin names a page (see `Page`); its exit code is
the answer on stdout.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from missing_operators import declare_missing_operators

#: Neither the package nor anything whose parts a page would name without importing them.
PRELOADED = (
    "torch._dynamo",
    "sklearn.datasets",
    "matplotlib.backends.backend_agg",
    "rich.progress",
    "tyro",
    "yaml",
)


@dataclass(frozen=True)
class Page:
    plan: str  # a file of steps
    source: str  # the page, for tracebacks
    work: str  # where they are executed
    output: str  # a file for what they print
    environment: dict[str, str]
    seconds: int  # the most it may take


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


def expanded(text: str) -> list[str]:
    """The words of a line as bash hands them to a program."""
    line = f"printf '%s\\0' {text}"
    words = subprocess.run(["bash", "-eu", "-c", line], stdout=subprocess.PIPE, text=True, check=True)
    return words.stdout.split("\0")[:-1]


def execute(step: dict[str, Any], source: str, namespace: dict[str, Any]) -> int:
    """0 if the step succeeded. A Python block keeps the line numbers of its page: tracebacks point there."""
    kind, text = step["kind"], step["text"]
    if kind == "python":
        exec(compile("\n" * (step["line"] - 1) + text, source, "exec"), namespace)
    elif kind == "cli":
        return exit_code(shlex.split(text)[1:])
    elif kind == "expanded":
        return exit_code(expanded(text)[1:])
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


def enter(page: Page) -> None:
    """Make this process that of the page."""
    signal.alarm(page.seconds)
    handle = os.open(page.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(page.environment)
    os.chdir(page.work)


def serve() -> int:
    """Returns, with the exit code, in the process of a page, and at the end of stdin."""
    for name in PRELOADED:
        import_module(name)
    declare_missing_operators()
    gc.freeze()  # or every process would go through all that was imported here when it ends
    gc.set_threshold(20_000, 20, 50)
    for line in sys.stdin:
        page = Page(**json.loads(line))
        process = os.fork()
        if process == 0:
            enter(page)
            return run(Path(page.plan), page.source)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(serve())
