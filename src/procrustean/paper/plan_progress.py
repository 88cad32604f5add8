"""Progress of many runs as one: how much is done, how fast, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from procrustean.base.console import duration_text
from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import PassingOn, Reporter
from procrustean.paper.planning import PlannedRun
from procrustean.runs.cost import predicted_seconds

#: Seconds of training before the measured speed is believed, and between two lines.
SETTLED, INTERVAL = 20.0, 30.0


class Progress:
    """Adds up the runs' epochs, and says from time to time where things stand.

    Args:
        runs: those to be trained.
        reporter: where lines, and with `details` the bars of single runs, go.
        rate: predicted cost per second of the whole fleet, until it is measured.
        width: runs at a time.
        deadline: time of the clock at which the call ends, None for never.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        reporter: Reporter,
        *,
        rate: float,
        width: int,
        deadline: float | None = None,
        details: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs = {run.config.hash: run for run in runs}
        self.reporter, self.details = reporter, details
        self.width, self.deadline, self.clock = width, deadline, clock
        self.predicted = rate
        self.share = {hash_: run.done for hash_, run in self.runs.items()}  # of each run that is done
        self.earned = 0.0  # cost trained in this call
        self.finished = self.failed = self.elsewhere = 0
        self._number = len(self.runs)
        self._started: float | None = None
        self._next_line = clock() + INTERVAL

    @property
    def seconds(self) -> float:
        """Since the first run began."""
        return 0.0 if self._started is None else self.clock() - self._started

    @property
    def rate(self) -> float:
        """Cost per second: measured once there is enough to measure, else predicted."""
        return self.earned / self.seconds if self.seconds > SETTLED and self.earned > 0 else self.predicted

    @property
    def seconds_left(self) -> float:
        """Until all runs are done, at the present speed."""
        costs = [run.cost * (1 - self.share[hash_]) for hash_, run in self.runs.items() if self.share[hash_] < 1]
        return predicted_seconds(costs, self.rate, self.width)

    def text(self) -> str:
        """Where things stand, in one line."""
        total = sum(run.cost for run in self.runs.values())
        done = sum(run.cost * self.share[hash_] for hash_, run in self.runs.items())
        percent = 100 * done / total if total else 100.0
        complete = sum(share >= 1 for share in self.share.values())
        text = f"{complete} of {self._number} runs{self._not_here}, {percent:.0f} % of the work"
        if self.seconds_left > 0:
            text += f", about {duration_text(self.seconds_left)} to go"
        if self.deadline is not None and self.seconds_left > self.deadline - self.clock():
            text += f", {duration_text(max(0.0, self.deadline - self.clock()))} of them in this call"
        return text

    @property
    def _not_here(self) -> str:
        """Runs that this call does not finish, whatever time it has."""
        elsewhere = f", {self.elsewhere} trained by another process" * bool(self.elsewhere)
        return f", {self.failed} failed" * bool(self.failed) + elsewhere

    def begun(self, run: PlannedRun, share: float) -> None:
        if self._started is None:
            self._started = self.clock()
        self.share[run.config.hash] = share

    def found(self, run: PlannedRun, share: float) -> None:
        """So much of a run had been done in earlier calls, or by another process."""
        self.share[run.config.hash] = share

    def advanced(self, run: PlannedRun, share: float) -> None:
        """A run has come to this share of its epochs."""
        self.earned += run.cost * (share - self.share[run.config.hash])
        self.share[run.config.hash] = share
        if self.clock() >= self._next_line:
            self._next_line = self.clock() + INTERVAL
            self.reporter.say(self.text())

    def ended(self, run: PlannedRun) -> None:
        self.share[run.config.hash] = 1.0
        self.finished += 1

    def given_up(self, run: PlannedRun, *, elsewhere: bool) -> None:
        """A run that has failed, or that another process is training: no time is to be spent on it in this call."""
        del self.runs[run.config.hash], self.share[run.config.hash]
        if elsewhere:
            self.elsewhere += 1
        else:
            self.failed += 1

    def of(self, run: PlannedRun) -> Reporter:
        """The reporter of one run."""
        return _OneRun(self, run)


class _OneRun(PassingOn):
    """Passes a run's epochs on to the sum, and to bars of its own where there are some."""

    def __init__(self, progress: Progress, run: PlannedRun) -> None:
        super().__init__(progress.reporter)
        self._progress, self._run, self._epochs = progress, run, 1
        self._called = run.name  # by the training, which does not know of rows and columns
        # A run goes on in the middle of an epoch, and the first sign from there tells where.
        self._goes_on = run.state == "begun"

    def say(self, text: str) -> None:
        about_it = text.startswith(f"{self._called}: ")
        self._inner.say_once(self._run.name + text.removeprefix(self._called) if about_it else text)

    def say_once(self, text: str) -> None:
        self.say(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._epochs, self._called = epochs, name
        self._progress.begun(self._run, first_epoch / epochs)
        if self._progress.details:
            super().run_started(self._run.name, epochs, first_epoch)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        if self._progress.details:
            super().epoch_done(self._run.name, epoch, record)
        self._goes_on = False
        self._progress.advanced(self._run, (epoch + 1) / self._epochs)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        """Also a call that ends before an epoch does is to measure the speed."""
        if self._progress.details:
            super().within_epoch(self._run.name, epoch, share)
        done = (epoch + share) / self._epochs
        if self._goes_on:
            self._goes_on = False
            self._progress.found(self._run, done)
        else:
            self._progress.advanced(self._run, done)

    def run_finished(self, name: str, summary: str) -> None:
        self._progress.ended(self._run)
        super().run_finished(self._run.name, summary)
