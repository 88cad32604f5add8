"""The runs that a command is given by their paths: found, read and acted on; what cannot be used is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from procrustean.base.console import notify, number_of, write_result
from procrustean.base.errors import ConfigError, ProcrusteanError, RunError
from procrustean.base.own_code import Kind, file_code, use_file
from procrustean.records.finding_runs import CANDIDATES, CONFIG_FILE, RESULT_FILE, is_run, resume_command, runs_in

if TYPE_CHECKING:
    from procrustean.records.run_record import Result

#: What --method or --net was given: one file, several, or none.
_Files = str | Sequence[str] | None

#: Where nothing is left to show.
NONE_FINISHED = "none of these is a finished run"


def use_own_files(methods: _Files, networks: _Files) -> None:
    """Allow the files that --method and --net name to be imported."""
    for kind, files in _by_kind(methods, networks).items():
        for file in files:
            use_file(file, kind)


def check_own_names(run: Path, methods: _Files, networks: _Files) -> None:
    """ConfigError where --method or --net names code in its file that is not what the run was trained with."""
    from procrustean.records.run_folder import RunFolder

    given = _by_kind(methods, networks)
    if not any(given.values()) or not os.path.isfile(run / CONFIG_FILE):  # noqa: PTH113  names may be too long
        return
    config = RunFolder(run).beginning().config
    trained: dict[Kind, str] = {"method": config.method, "network": config.net or ""}
    for kind, used in trained.items():
        own, named = file_code(used), [code for file in given[kind] if (code := file_code(file)) is not None]
        if own is not None and named and all(code.function not in ("", own.function) for code in named):
            raise ConfigError(
                f"{kind} {named[0].plain} received, but {run} was trained with {own.function!r}. "
                f"Did you mean {named[0].path}:{own.function}?"
            )


def _by_kind(methods: _Files, networks: _Files) -> dict[Kind, Sequence[str]]:
    given: dict[Kind, _Files] = {"method": methods, "network": networks}
    return {kind: [files] if isinstance(files, str) else files or () for kind, files in given.items()}


def finished_runs(paths: Sequence[Path]) -> list[Path]:
    """The finished runs at the paths, damaged ones too; what is no run or not finished is named on stderr."""
    found: list[Path] = []
    for run in _runs_at(paths):
        if run.is_dir() and not is_run(run):
            notify(f"left out {run}: not a run, and no run is in it")
        elif run.is_dir() and not (run / RESULT_FILE).exists():
            notify(f"left out {run}: not finished; go on with: {resume_command(run)}")
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


def distinct_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, each once; what is missing stays, to be named in its turn.

    Results that lie in a folder without their runs, as `paper reproduce --results` keeps them, are counted on stderr
    and left out: nobody has asked for them by name.
    """
    distinct: dict[Path, Path] = {}
    records: list[Path] = []
    for path in paths:
        try:
            found = _runs_at([path])
        except RunError:
            found = [path]
        for run in found:
            if run == path or (run / CONFIG_FILE).exists():
                distinct.setdefault(run.resolve(), run)
            else:
                records.append(run)
    if records:
        results = number_of(len(records), "result")
        notify(f"left out {results} without settings and weights of a run, for example {records[0]}")
    return list(distinct.values())


def _runs_at(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, and what is no run but was given.

    The candidates of `tune` are named on stderr and left out unless their own folder is given: they were trained
    without the images that chose among them.
    """
    found: list[Path] = []
    for path in paths:
        for folder, runs in groupby(runs_in(path), key=lambda run: run.parent):
            if folder.name == CANDIDATES and folder not in (path, path.parent):
                number = len(list(runs))
                notify(f"left out {folder}: {number} runs among which options were chosen; to see them, give {folder}")
            else:
                found += runs
    return found


def for_each_run(
    runs: Sequence[Path], act: Callable[[Path], None], *, done: str, then: Callable[[], None] = lambda: None
) -> None:
    """Act on every run, under a heading where there are several.

    Raises:
        RunError: at the end, with the runs that could not be.
    """
    if len(runs) == 1:
        return act(runs[0])
    failed: list[str] = []
    for number, run in enumerate(runs):
        if number:
            write_result("")
        write_result(f"## {run}")
        write_result("")
        try:
            act(run)
        except ProcrusteanError as error:
            write_result(f"This run could not be {done}.")
            notify(str(error) if str(run) in str(error) else f"{run}: {error}")
            failed.append(str(run))
    then()
    if failed:
        raise RunError(f"{len(failed)} of {len(runs)} runs could not be {done}: {', '.join(failed)}")
    return None
