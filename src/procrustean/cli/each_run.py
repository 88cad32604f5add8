"""Do something to several runs, one after the other: a bad one is named, the others are none the worse for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from procrustean.base.console import notify, write_result
from procrustean.base.errors import ProcrusteanError, RunError
from procrustean.cli.outcome import runs_of
from procrustean.records.finding_runs import CONFIG_FILE


def distinct_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs at the paths and in folders of runs, each once; what is missing stays, to be named in its turn.

    Results that lie in a folder without their runs, as `paper reproduce --results` keeps them, are counted on stderr
    and left out: nobody has asked for them by name.
    """
    distinct: dict[Path, Path] = {}
    records: list[Path] = []
    for path in paths:
        try:
            found = runs_of([path])
        except RunError:
            found = [path]
        for run in found:
            if run == path or (run / CONFIG_FILE).exists():
                distinct.setdefault(run.resolve(), run)
            else:
                records.append(run)
    if records:
        results = "1 result" if len(records) == 1 else f"{len(records)} results"
        notify(f"left out {results} without settings and weights of a run, for example {records[0]}")
    return list(distinct.values())


def for_each_run(
    runs: Sequence[Path], act: Callable[[Path], None], *, done: str, then: Callable[[], None] = lambda: None
) -> None:
    """Act on every run, under a heading where there are several.

    A reason for which several cannot be, a file of a method that was not named for example, is said once.

    Args:
        runs: where they are.
        act: what is done to one; it writes what it finds.
        done: what was done to a run then, in words.
        then: what is done after several, before those that could not be are named.

    Raises:
        RunError: at the end, with the runs that could not be.
    """
    if len(runs) == 1:
        return act(runs[0])
    failed: list[str] = []
    first_of: dict[str, Path] = {}  # reason -> the run that it was said of
    for number, run in enumerate(runs):
        if number:
            write_result("")
        write_result(f"## {run}")
        write_result("")
        try:
            act(run)
        except ProcrusteanError as error:
            reason = str(error)
            same = first_of.setdefault(reason, run)
            if same is run:
                write_result(f"This run could not be {done}.")
                notify(reason if str(run) in reason else f"{run}: {reason}")
            else:
                write_result(f"This run could not be {done}, for the same reason as {same}.")
            failed.append(str(run))
    then()
    if failed:
        raise RunError(f"{len(failed)} of {len(runs)} runs could not be {done}: {', '.join(failed)}")
    return None
