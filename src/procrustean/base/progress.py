"""What a user sees while runs go on: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import atexit
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, cast

from msgspec.structs import replace

from procrustean.base.console import ProgressStream, can_show_bars, duration_text, number_of, print_wrapped
from procrustean.base.epochs import EpochRecord, progress_texts, result_text
from procrustean.base.escaping import printable
from procrustean.base.stop_signals import heed_stop

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

#: Seconds without a line of a run, if one of its epochs ends after them; and within an epoch that takes longer.
SILENT_AT_MOST, SILENT_WITHIN_EPOCH = 60.0, 30.0
#: Seconds between two signs of how far work is that a bar shows.
SPACING = 0.5
#: Characters of a run's name that a bar shows.
LONGEST_NAME = 32


class Reporter:
    """Told what happens during training, of one run or of several that take turns, each known by its name.

    Epochs count from 0, as in the records; readers see them from 1. This one shows nothing, and what is probably a
    mistake is a warning of Python, as from any library; subclasses show what they override.
    """

    def say(self, text: str) -> None:
        """Shows one message."""

    def say_once(self, text: str) -> None:
        """Shows a message that many runs share, the first time only."""

    def warn(self, text: str) -> None:
        """Shows what is probably a mistake, once however many runs share it."""
        warnings.warn(text, stacklevel=2)

    def reading(self, what: str, done: int, total: int) -> None:
        """So many files are read, which takes longer than a moment; the last call is of all."""

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        """A run of `epochs` epochs begins, or goes on, at `first_epoch`."""

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        """This share of the steps of an epoch is done."""

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        """An epoch has ended."""

    def run_finished(self, name: str, summary: str) -> None:
        """The run is complete; `summary` is what came out, in one line."""

    def close(self) -> None:
        """Leaves the terminal as it was, also in the middle of a run; the reporter can be used again."""


class Headway:
    """How far long work on images or files is: told from a second on, until the program is asked to stop.

    Args:
        tell: told what it is, how much of it is done, and of how much.
        what, total: what it is, and how much.
    """

    def __init__(self, tell: Callable[[str, int, int], None], what: str, total: int) -> None:
        self._tell, self._what, self._total = tell, what, total
        self._done, self._told, self._due = 0, False, time.monotonic() + 1

    def done(self, more: int) -> None:
        """So many more are done; raises `Interrupted` where the program was asked to stop."""
        heed_stop()
        self._done += more
        if time.monotonic() >= self._due or (self._told and self._done == self._total):
            self._told, self._due = True, time.monotonic() + SPACING
            self._tell(self._what, self._done, self._total)


class _Shown(Reporter):
    """Remembers what was said, so that what many runs share is shown once, and the newest result of each run."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._results: dict[str, str] = {}

    def say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def warn(self, text: str) -> None:
        self.say_once(f"warning: {text}")

    def _texts(self, name: str, record: EpochRecord) -> list[str]:
        """What is known of an epoch, with the newest result of the run if this one was not tested."""
        if (result := result_text(record)) is not None:
            self._results[name] = result
        return progress_texts(record, self._results.get(name))


@dataclass
class _PlainRun:
    """What the lines of a run that goes on depend on."""

    epochs: int
    first: int  # epoch, and
    began: float  # time, from which its speed is told
    next_epoch: int  # whose end has a line
    last_line: float
    last_sign: float  # when an epoch ended, or a line told how far one is


class PlainReporter(_Shown):
    """Lines of text for logs, notebooks and pipes: about ten per run, more where they would be over a minute apart, at
    most one per second; in epochs of more than half a minute, lines that say how far they are.

    Args:
        stream: where to write; by default what sys.stderr is at the time of writing.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._runs: dict[str, _PlainRun] = {}
        self._reading: dict[str, float] = {}  # when its last line was
        self._last_line = 0.0

    def say(self, text: str) -> None:
        stream = ProgressStream(sys.stderr if self._stream is None else self._stream)
        stream.write(printable(text) + "\n")
        stream.flush()

    def reading(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now - self._reading.setdefault(what, now) >= SILENT_WITHIN_EPOCH:
            self._reading[what] = now
            self.say(f"{what}: {done:,} of {total:,}")
        if done == total:
            del self._reading[what]

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._results.pop(name, None)
        now = self._last_line = self._clock()
        self._runs[name] = _PlainRun(epochs, first_epoch, now, first_epoch, now, now)
        going_on = f", going on after {first_epoch}" if first_epoch else ""
        self.say(f"{name}: {number_of(epochs, 'epoch')}{going_on}")

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        run, now = self._runs.get(name), self._clock()
        if run is not None and now - run.last_sign >= SILENT_WITHIN_EPOCH:
            run.last_sign = now
            self.say(f"{name}: {100 * share:.0f} % of epoch {epoch + 1}/{run.epochs}")

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        run = self._runs.get(name)
        if run is None:
            return
        texts, done, now = self._texts(name, record), epoch + 1, self._clock()
        run.last_sign = now
        due = epoch >= run.next_epoch or now - run.last_line >= SILENT_AT_MOST
        if not due or now - self._last_line < 1:
            return
        self._last_line = run.last_line = now
        run.next_epoch = epoch + max(1, round(run.epochs / 10))
        if done < run.epochs:
            left = (run.epochs - done) * (now - run.began) / (done - run.first)
            texts.append(f"{duration_text(left)} left")
        self.say(", ".join([f"{name}: epoch {done}/{run.epochs}", *texts]))

    def run_finished(self, name: str, summary: str) -> None:
        self._runs.pop(name, None)
        self.say(f"{name}: {summary}")


class RichReporter(_Shown):
    """A live bar for each run that goes on, and one line for each that is finished.

    Args:
        console: a rich console; by default one on stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        if console is None:
            from rich.console import Console

            console = Console(file=cast(TextIO, ProgressStream(sys.stderr)))
        self._console = console
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def say(self, text: str) -> None:
        print_wrapped(self._console, text)

    def reading(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._begin(what, total, done)
        assert self._progress is not None
        self._progress.update(self._tasks[what], completed=done)
        if done == total:
            self._end(what)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._results.pop(name, None)
        self._begin(name, epochs, first_epoch)

    def _begin(self, name: str, total: int, done: int) -> None:
        if self._progress is None:
            self._progress = _bars(self._console)
            atexit.register(self.close)  # an interrupted program must not leave the cursor hidden
            self._progress.start()
        if name in self._tasks:  # it goes on after its process was replaced
            self._progress.remove_task(self._tasks[name])
        self._tasks[name] = self._progress.add_task(printable(name), total=total, completed=done, numbers="")

    def _end(self, name: str) -> None:
        assert self._progress is not None
        if len(self._tasks) == 1:
            self.close()
        else:
            self._progress.refresh()  # shows the last numbers before the bar goes
            self._progress.remove_task(self._tasks.pop(name))

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        if self._progress is not None and name in self._tasks:
            self._progress.update(self._tasks[name], completed=epoch + share)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        if self._progress is None or name not in self._tasks:
            return
        numbers = ", ".join(self._texts(name, record))
        self._progress.update(self._tasks[name], completed=epoch + 1, numbers=numbers)

    def run_finished(self, name: str, summary: str) -> None:
        from rich.text import Text

        if self._progress is not None and name in self._tasks:
            self._end(name)
        self._console.print(Text.assemble(("✓ ", "green"), (printable(name), "bold"), "  ", printable(summary)))

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._tasks = {}
            atexit.unregister(self.close)


def _bars(console: Console) -> Progress:
    """Bars with epochs and time left; name and numbers are cut where the terminal is narrow."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    name = Column(no_wrap=True, overflow="ellipsis", max_width=LONGEST_NAME)
    numbers = Column(no_wrap=True, overflow="ellipsis", ratio=8)
    return Progress(
        TextColumn("{task.description}", style="bold", markup=False, table_column=name),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("{task.fields[numbers]}", style="dim", markup=False, table_column=numbers),
        TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=7)),
        console=console,
        transient=True,
        expand=True,
        refresh_per_second=4,
    )


class PassingOn(Reporter):
    """A reporter in front of another: what a kind of progress changes, it overrides."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner

    def called(self, name: str) -> str:
        """The name under which a run is passed on."""
        return name

    def say(self, text: str) -> None:
        self._inner.say(text)

    def say_once(self, text: str) -> None:
        self._inner.say_once(text)

    def warn(self, text: str) -> None:
        self._inner.warn(text)

    def reading(self, what: str, done: int, total: int) -> None:
        self._inner.reading(what, done, total)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._inner.run_started(self.called(name), epochs, first_epoch)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self._inner.within_epoch(self.called(name), epoch, share)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        self._inner.epoch_done(self.called(name), epoch, record)

    def run_finished(self, name: str, summary: str) -> None:
        self._inner.run_finished(self.called(name), summary)

    def close(self) -> None:
        self._inner.close()


class Distinct(PassingOn):
    """Passes the progress of one run on under a name that no other run of the fleet has."""

    def __init__(self, inner: Reporter, addition: str) -> None:
        super().__init__(inner)
        self._addition = addition

    def called(self, name: str) -> str:
        return f"{name} ({self._addition})" if self._addition else name


class WithoutTest(PassingOn):
    """Leaves the test results out while runs are compared on held-out images: who saw them could choose by them."""

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        super().epoch_done(name, epoch, replace(record, test=None))


def make_reporter(quiet: bool = False) -> Reporter:
    """The reporter that suits stderr: live bars on a terminal, lines elsewhere, warnings alone when quiet."""
    if quiet:
        return Reporter()
    return RichReporter() if can_show_bars() else PlainReporter()


@contextmanager
def reporting(quiet: bool = False) -> Iterator[Reporter]:
    """The same reporter for a while; the terminal is as it was afterwards, also where an error ends it."""
    reporter = make_reporter(quiet)
    try:
        yield reporter
    finally:
        reporter.close()
