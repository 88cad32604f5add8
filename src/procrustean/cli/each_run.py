"""Do something to several runs, one after the other: a bad one is named, the others are none the worse for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ProcrusteanError, RunError
from ..progress.streams import notify, write_result
from .outcome import runs_of


def distinct_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, each once; what is missing stays, to be named in its turn."""
    distinct: dict[Path, Path] = {}
    for path in paths:
        try:
            found = runs_of([path])
        except RunError:
            found = [path]
        for run in found:
            distinct.setdefault(run.resolve(), run)
    return list(distinct.values())


def for_each_run(runs: Sequence[Path], act: Callable[[Path], None], *, done: str) -> None:
    """Act on every run, under a heading where there are several.

    Args:
        runs: where they are.
        act: what is done to one; it writes what it finds.
        done: what was done to a run then, in words.

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
    if failed:
        raise RunError(f"{len(failed)} of {len(runs)} runs could not be {done}: {', '.join(failed)}")
    return None
