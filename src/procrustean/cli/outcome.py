"""Show runs as tables, in the terminal or in a format for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import RunError
from ..run_places import CANDIDATES, RESULT_FILE, damaged_in, is_run, resume_command, runs_in
from ..streams import notify
from .outputs import write_table

if TYPE_CHECKING:
    from ..report.formats import Table
    from ..report.results import Result

Format = Literal["table", "markdown", "csv", "latex"]


def finished_runs(paths: Sequence[Path]) -> list[Path]:
    """The finished ones among `runs_of` the paths; what is no run or not finished is named on stderr."""
    found: list[Path] = []
    for run in runs_of(paths):
        if run.is_dir() and not is_run(run):
            _leave_out(f"{run}: not a run, and no run is in it")
        elif run.is_dir() and not (run / RESULT_FILE).exists():
            _leave_out(f"{run}: not finished; go on with: {resume_command(run)}")
        else:
            found.append(run)
    if paths and not found:
        raise RunError("none of these is a finished run")
    return found


def finished_results(paths: Sequence[Path]) -> list[Result]:
    """What the finished runs at the paths have recorded; copies that say the same count once, which is said."""
    from ..report.copies import without_copies
    from ..report.results import load_result

    return without_copies((load_result(run) for run in finished_runs(paths)), notify)


def runs_of(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, and what is no run but was given.

    The candidates of `tune` are named on stderr and left out unless their own folder is given: they were trained
    without the images that chose among them. So are files that may have been results: without a word a seed would be
    missing.
    """
    found: list[Path] = []
    for path in paths:
        for folder, runs in groupby(runs_in(path), key=lambda run: run.parent):
            if folder.name == CANDIDATES and folder not in (path, path.parent):
                _leave_out(
                    f"{folder}: {len(list(runs))} runs among which options were chosen; to see them, give {folder}"
                )
            else:
                found += runs
        for file in damaged_in(path):
            _leave_out(f"{file}: holds no result; if it was that of a run, copy it anew, or train the run again")
    return found


def _leave_out(text: str) -> None:
    notify(f"left out {text}")


def show(runs: Sequence[Path], *, form: Format = "table", by_class: bool = False, output: Path | None = None) -> None:
    """Write the comparison of runs to the terminal or a file: one table, and one for each choice of classes.

    A CSV file is one table, whose first columns tell them apart.
    """
    from ..report.formats import to_csv, to_latex, to_markdown
    from ..streams import write_result

    tables = comparisons_of(runs, by_class=by_class, in_one=form == "csv")
    if form == "table" and output is None:
        write_result(*tables)
        return
    written = {"table": to_markdown, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form]
    text = "\n".join(written(table) for table in tables)
    if output is None:
        write_result(text.rstrip("\n"))
        return
    write_table(output, text)


def comparisons_of(runs: Sequence[Path], *, by_class: bool = False, in_one: bool = False) -> list[Table]:
    """The finished ones among the runs as tables, one for each choice of classes unless they are wanted in one."""
    from ..report.class_tables import per_class
    from ..report.ordering import by_options
    from ..report.results import group_results, split_by_choice_of_classes
    from ..report.tables import comparison

    groups = by_options(group_results(finished_results(runs)))
    if by_class:
        return [per_class(groups)]
    parts = [groups] if in_one or not groups else split_by_choice_of_classes(groups)
    return [comparison(part) for part in parts]
