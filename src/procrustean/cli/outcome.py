"""Show runs as tables, in the terminal or in a format for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.base.console import notify
from procrustean.base.errors import RunError
from procrustean.cli.outputs import check_output, write_table
from procrustean.records.finding_runs import CANDIDATES, RESULT_FILE, damaged_in, is_run, resume_command, runs_in

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table
    from procrustean.records.run_record import Result

Format = Literal["table", "markdown", "csv", "latex"]
Kind = Literal["summary", "per_class", "intervals"]


#: Where nothing is left to show.
NONE_FINISHED = "none of these is a finished run"


def finished_runs(paths: Sequence[Path]) -> list[Path]:
    """The finished runs at the paths, damaged ones too; what is no run or not finished is named on stderr."""
    found: list[Path] = []
    for run in [*_runs_at(paths), *_damaged_at(paths)]:
        if run.is_dir() and not is_run(run):
            _leave_out(f"{run}: not a run, and no run is in it")
        elif run.is_dir() and not (run / RESULT_FILE).exists():
            _leave_out(f"{run}: not finished; go on with: {resume_command(run)}")
        else:
            found.append(run)
    if paths and not found:
        raise RunError(NONE_FINISHED)
    return found


def readable_runs(paths: Sequence[Path]) -> tuple[dict[Path, Result], int]:
    """The finished runs at the paths with what they have recorded, and the exit code.

    A damaged one is named on stderr and left out, and the code is 1: without a word a seed would be missing.
    """
    from procrustean.records.run_record import load_result

    found: dict[Path, Result] = {}
    code = 0
    for run in finished_runs(paths):
        try:
            found[run] = load_result(run)
        except RunError as error:
            notify(f"left out: {error}")
            code = 1
    if paths and not found:
        raise RunError(NONE_FINISHED)
    return found, code


def finished_results(paths: Sequence[Path]) -> tuple[list[Result], int]:
    """What the finished runs at the paths have recorded, and the exit code, as with `readable_runs`.

    Copies that say the same count once, which is said.
    """
    from procrustean.records.groups import without_copies

    found, code = readable_runs(paths)
    return without_copies(found.values(), notify), code


def runs_of(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, and what is no run but was given.

    Files that may have been results are named on stderr and left out.
    """
    found = _runs_at(paths)
    for file in _damaged_at(paths):
        _leave_out(f"{file}: holds no result; if it was that of a run, copy it anew, or train the run again")
    return found


def _damaged_at(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in damaged_in(path)]


def _runs_at(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, and what is no run but was given.

    The candidates of `tune` are named on stderr and left out unless their own folder is given: they were trained
    without the images that chose among them.
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
    return found


def _leave_out(text: str) -> None:
    notify(f"left out {text}")


def show(runs: Sequence[Path], *, form: Format = "table", kind: Kind = "summary", output: Path | None = None) -> int:
    """Write the comparison of runs to the terminal or a file: one table, and one for each choice of classes.

    A CSV file is one table, whose first columns tell them apart. Returns the exit code, as `readable_runs` does.
    """
    from procrustean.base.console import write_result
    from procrustean.base.table_formats import to_csv, to_latex, to_markdown

    if output is not None:
        check_output(output)
    results, code = finished_results(runs)
    tables = comparisons_of(results, kind=kind, in_one=form == "csv")
    if form == "table" and output is None:
        write_result(*tables)
        return code
    written = {"table": to_markdown, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form]
    text = "\n".join(written(table) for table in tables)
    if output is None:
        write_result(text.rstrip("\n"))
    else:
        write_table(output, text)
    return code


def comparisons_of(results: Sequence[Result], *, kind: Kind = "summary", in_one: bool = False) -> list[Table]:
    """Results as tables, one for each choice of classes unless they are wanted in one."""
    from procrustean.records.groups import by_options, group_results, split_by_choice_of_classes
    from procrustean.report.class_tables import per_class
    from procrustean.report.comparison_table import comparison
    from procrustean.report.uncertainty import intervals

    if kind == "intervals":
        found = intervals(results)
        if found is None:
            raise RunError("none of these runs has an interval, which those on images of one's own have")
        return [found]
    groups = by_options(group_results(results))
    if kind == "per_class":
        return [per_class(groups)]
    parts = [groups] if in_one or not groups else split_by_choice_of_classes(groups)
    return [comparison(part) for part in parts]
