"""Carry a plan out: several runs at a time, within a time box, every result kept as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta, Struct

from procrustean.base.errors import CannotWrite, ConfigError, DataError, ImagesChanged
from procrustean.base.files import write_atomically
from procrustean.base.json_files import read_typed, typed_json
from procrustean.base.lease import RunInUse
from procrustean.base.own_code import failure_text
from procrustean.base.progress import Reporter, RichReporter
from procrustean.paper.plan_progress import Progress
from procrustean.paper.planning import Plan, PlannedRun
from procrustean.paper.result_store import Store
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.runs.cost import FIRST_GUESS, Device, TimeBox
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import GPU_WIDTH, fit_many

#: Errors whose cause may be gone before the next call, which then tries the run again.
MENDABLE = (ConfigError, DataError, ImagesChanged, CannotWrite, torch.OutOfMemoryError)


Positive = Annotated[float, Meta(gt=0)]


class Rate(Struct, frozen=True, kw_only=True):
    """How fast a kind of machine was: cost and seconds of what it has trained, the newest counting most."""

    cost: Positive
    seconds: Positive


@dataclass(frozen=True)
class Report:
    """What a call has done, and what it left."""

    finished: int  # in this call
    remaining: int
    begun: int  # of those that remain
    seconds_left: float  # predicted, for what remains
    errors: dict[str, str]  # name of a run -> why it failed or could not begin
    elsewhere: tuple[str, ...]  # names of runs that another process was training, and has not finished


def default_width() -> int:
    """Runs at a time where nobody says otherwise."""
    return GPU_WIDTH if machine_name()[0] == "cuda" else 1


def carry_out(
    plan: Plan,
    store: Store,
    *,
    command: str,
    reporter: Reporter,
    minutes: float | None = None,
    width: int | None = None,
    sources: Sources | None = None,
    clock: Callable[[], float] = time.monotonic,
    began: float | None = None,
) -> Report:
    """Train what remains of a plan.

    Args:
        plan: what to train.
        store: where results are kept.
        command: kept with each result.
        reporter: where progress goes.
        minutes: stop after so long, with everything saved; None trains to the end.
        width: runs at a time.
        sources: what loads the images, and may have done so for the plan.
        clock: seconds of a clock that never goes back.
        began: time of the clock from which the minutes count; now, if nothing is said.
    """
    assert store.output is not None
    _keep_finished(plan, store, command, reporter)
    runs = [run for run in plan.remaining if store.find(run.config) is None]
    width = default_width() if width is None else width
    box = TimeBox(minutes, clock, began)
    progress = Progress(
        runs,
        reporter,
        rate=expected_rate(store.output),
        width=width,
        deadline=box.deadline,
        details=isinstance(reporter, RichReporter),
        clock=clock,
    )
    by_hash = {run.config.hash: run for run in runs}

    errors: dict[str, str] = {}

    def keep(config: RunSpec, directory: Path) -> None:
        run = by_hash[config.hash]
        _keep(store, directory, run, command)
        progress.found(run, 1.0)  # also one that another process has trained meanwhile

    def give_up(config: RunSpec, error: Exception) -> None:
        run, elsewhere = by_hash[config.hash], isinstance(error, RunInUse)
        progress.given_up(run, elsewhere=elsewhere)
        if not elsewhere:
            note(run, error)
            tell(run)

    def tell(run: PlannedRun) -> None:
        """Say why a run failed; a reason that many share, a source that cannot be read for example, is said once."""
        first, *others = (name for name, reason in errors.items() if reason == errors[run.name])
        if not others:
            reporter.say(f"{first} failed: {errors[first]}")
        elif len(others) == 1:
            reporter.say(f"further runs fail for the same reason as {first}; they are named at the end")

    def note(run: PlannedRun, error: Exception) -> None:
        errors[run.name] = failure_text(error)
        if not isinstance(error, MENDABLE):
            store.note_failure(run.config, f"{run.name}: {errors[run.name]}")

    outcomes = fit_many(
        [run.config for run in runs],
        sources=sources,
        width=width,
        reporter=reporter,
        reporter_of=lambda config: progress.of(by_hash[config.hash]),
        costs=[float(-number) for number in range(len(runs))],
        time_up=box.is_over,
        finished=keep,
        failed=give_up,
    )
    elsewhere = []
    for run, outcome in zip(runs, outcomes, strict=True):
        if outcome.elsewhere and (outcome.path / RESULT_FILE).exists():
            # The other process has come to the end of it since.
            _keep(store, outcome.path, run, command)
        elif outcome.elsewhere:
            elsewhere.append(run.name)
        elif outcome.error is not None and run.name not in errors:  # a result that cannot be read
            note(run, outcome.error)
    left = [outcome for outcome in outcomes if outcome.record is None and outcome.error is None]
    note_rate(store.output, progress.earned, progress.seconds)
    return Report(
        finished=progress.finished,
        remaining=len(left),
        begun=sum((outcome.path / CONFIG_FILE).exists() for outcome in left),
        seconds_left=progress.seconds_left if left else 0.0,
        errors=errors,
        elsewhere=tuple(elsewhere),
    )


def _keep_finished(plan: Plan, store: Store, command: str, reporter: Reporter) -> None:
    """Results of runs that ended just before a kill, or that another command has trained."""
    runs = {run.config.hash: run for run in plan.runs}
    for hash_, directory in store.unkept().items():
        if hash_ in runs:
            _keep(store, directory, runs[hash_], command)
            reporter.say(f"kept the result of {directory}")


def _keep(store: Store, directory: Path, run: PlannedRun, command: str) -> None:
    """Keep the result of a finished run, whose process may have been killed before it had cleared up."""
    RunFolder(directory).clear()
    store.keep(directory, run.cells[0].table, command)


FILE = "pace.json"
#: A measurement over less is left out, and older ones count half as much with every newer one.
SHORTEST, FADE = 20.0, 0.5


def machine_name() -> tuple[Device, str]:
    """Kind of device ("cuda" or "cpu") and its name."""
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    return "cpu", "cpu"


def expected_rate(folder: Path) -> float:
    """Cost per second of a fleet: measured on this kind of machine, or a first guess."""
    kind, name = machine_name()
    measured = _read(folder).get(name)
    return measured.cost / measured.seconds if measured else FIRST_GUESS[kind]


def note_rate(folder: Path, cost: float, seconds: float) -> None:
    """Remember a measurement."""
    if seconds < SHORTEST or cost <= 0:
        return
    _, name = machine_name()
    known = _read(folder)
    before = known.get(name)
    if before is not None:
        cost, seconds = FADE * before.cost + cost, FADE * before.seconds + seconds
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, typed_json({**known, name: Rate(cost=cost, seconds=seconds)}))


def _read(folder: Path) -> dict[str, Rate]:
    path = folder / FILE
    return read_typed(path, dict[str, Rate], "remove it; it only remembers how fast runs were") if path.exists() else {}
