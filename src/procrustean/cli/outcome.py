"""Show runs as tables, in the terminal or in a format for other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..console import command_text
from ..errors import RunError
from ..report.result_file import runs_in

Format = Literal["table", "markdown", "csv", "latex"]


def finished_runs(paths: Sequence[Path]) -> list[Path]:
    """The finished runs among the paths and in folders of runs; the others are named on stderr and left out."""
    found: list[Path] = []
    for path in paths:
        for run in runs_in(path):
            if run.is_dir() and (run / "config.json").exists() and not (run / "result.json").exists():
                sys.stderr.write(
                    f"procrustean: {run} is not finished and left out; go on with: {command_text('resume', run)}\n"
                )
            else:
                found.append(run)
    if paths and not found:
        raise RunError("none of these runs is finished")
    return found


def show(runs: Sequence[Path], *, form: Format = "table", by_class: bool = False, output: Path | None = None) -> None:
    """Write the comparison of runs to the terminal or a file."""
    from ..console import write_result
    from ..report.formats import to_csv, to_latex, to_markdown
    from ..report.results import group_results, load_result
    from ..report.tables import comparison, per_class

    groups = group_results(load_result(run) for run in finished_runs(runs))
    table = per_class(groups) if by_class else comparison(groups)
    if form == "table" and output is None:
        write_result(table)
        return
    text = {"table": to_markdown, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](table)
    if output is None:
        write_result(text.rstrip("\n"))
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise RunError(f"cannot write {output} ({error.strerror})") from error
