"""Carry a plan out: several runs at a time, within a time box, every result kept as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from procrustean.base.console import duration_text
from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import CannotWrite, ConfigError, DataError, ImagesChanged
from procrustean.base.lease import RunInUse
from procrustean.base.machine import usable_cores
from procrustean.base.own_code import failure_text
from procrustean.base.progress import PassingOn, Reporter, RichReporter
from procrustean.paper.planning import Plan, PlannedRun
from procrustean.paper.result_store import Store
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.runs.cost import FIRST_GUESS, Device, TimeBox, predicted_seconds
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import GPU_WIDTH, fit_many

#: Errors whose cause may be gone before the next call, which then tries the run again.
MENDABLE = (ConfigError, DataError, ImagesChanged, CannotWrite, torch.OutOfMemoryError)

#: Seconds of training before the measured speed is believed, and between two lines.
SETTLED, INTERVAL = 20.0, 30.0


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
    progress = Progress(runs, reporter, width=width, details=isinstance(reporter, RichReporter), clock=clock)
    by_hash = {run.config.hash: run for run in runs}

    errors: dict[str, str] = {}

    def keep(config: RunSpec, directory: Path) -> None:
        run = by_hash[config.hash]
        _keep(store, directory, run, command)
        progress.came_to(run, 1.0, trained=False)  # also one that another process has trained meanwhile

    def give_up(config: RunSpec, error: Exception) -> None:
        run, elsewhere = by_hash[config.hash], isinstance(error, RunInUse)
        progress.came_to(run, 1.0, trained=False)  # no time is to be spent on it in this call
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


def machine_name() -> tuple[Device, str]:
    """Kind of device ("cuda" or "cpu") and its name."""
    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    return "cpu", "cpu"


def first_rate() -> float:
    """Cost per second of a fleet on this machine before it is measured."""
    kind, _ = machine_name()
    return FIRST_GUESS[kind] * (usable_cores() / 2 if kind == "cpu" else 1)


class Progress:
    """Adds up the runs' epochs, and says from time to time how many are done and how long the rest will take."""

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        reporter: Reporter,
        *,
        width: int,
        details: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reporter, self.details, self.width, self.clock = reporter, details, width, clock
        self.left = {run.config.hash: run.cost * run.to_do for run in runs}
        self.finished = 0
        self._trained = 0.0  # cost, in this call
        self._began = clock()
        self._next_line = self._began + INTERVAL

    @property
    def seconds_left(self) -> float:
        """Until all runs are done: at the speed of this call, once there is enough to measure."""
        seconds = self.clock() - self._began
        rate = self._trained / seconds if seconds > SETTLED and self._trained > 0 else first_rate()
        return predicted_seconds([cost for cost in self.left.values() if cost > 0], rate, self.width)

    def text(self) -> str:
        """Where things stand, in one line."""
        return f"{self.finished} of {len(self.left)} runs done, about {duration_text(self.seconds_left)} to go"

    def came_to(self, run: PlannedRun, share: float, *, trained: bool = True) -> None:
        """A run has come to this share of its epochs, trained in this call or found to be there."""
        left = run.cost * (1 - share)
        if trained:
            self._trained += self.left[run.config.hash] - left
        self.left[run.config.hash] = left
        if trained and self.clock() >= self._next_line:
            self._next_line = self.clock() + INTERVAL
            self.reporter.say(self.text())

    def of(self, run: PlannedRun) -> Reporter:
        """The reporter of one run."""
        return _OneRun(self, run)


class _OneRun(PassingOn):
    """Passes a run's epochs on to the sum, and to bars of its own where there are some, by its row and column."""

    def __init__(self, progress: Progress, run: PlannedRun) -> None:
        super().__init__(progress.reporter)
        self._progress, self._run, self._epochs = progress, run, 1
        self._called = run.name  # by the training, which does not know of rows and columns

    def say(self, text: str) -> None:
        about_it = text.startswith(f"{self._called}: ")
        self._inner.say_once(self._run.name + text.removeprefix(self._called) if about_it else text)

    def say_once(self, text: str) -> None:
        self.say(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._epochs, self._called = epochs, name
        self._progress.came_to(self._run, first_epoch / epochs, trained=False)
        if self._progress.details:
            super().run_started(self._run.name, epochs, first_epoch)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self._progress.came_to(self._run, (epoch + share) / self._epochs)
        if self._progress.details:
            super().within_epoch(self._run.name, epoch, share)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        self._progress.came_to(self._run, (epoch + 1) / self._epochs)
        if self._progress.details:
            super().epoch_done(self._run.name, epoch, record)

    def run_finished(self, name: str, summary: str) -> None:
        self._progress.finished += 1
        super().run_finished(self._run.name, summary)
