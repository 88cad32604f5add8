"""What a user sees while runs go on: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast, runtime_checkable

from procrustean.base.escaping import printable
from procrustean.base.streams import ProgressStream, print_wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Reporter(Protocol):
    """Told what happens during training, of one run or of several that take turns, each known by its name.

    Epochs count from 0, as in the records; readers see them from 1.
    """

    def say(self, text: str) -> None:
        """Shows one message."""

    def say_once(self, text: str) -> None:
        """Shows a message that many runs share, the first time only."""

    def warn(self, text: str) -> None:
        """Shows what is probably a mistake, once however many runs share it."""

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        """A run of `epochs` epochs begins, or goes on, at `first_epoch`."""

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        """`record` has loss, lr, images_per_second and, where they were measured, the results `test` and `held_out`."""

    def run_finished(self, name: str, summary: str) -> None:
        """The run is complete; `summary` is what came out, in one line."""

    def close(self) -> None:
        """Leaves the terminal as it was, also in the middle of a run; the reporter can be used again."""


@runtime_checkable
class ShowsSteps(Protocol):
    """A reporter that is also told how far an epoch is; others need not know of it."""

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        """This share of the steps of an epoch is done."""


class SilentReporter:
    """Shows no progress; what is probably a mistake is a warning of Python, as from any library."""

    def say(self, text: str) -> None:
        pass

    def say_once(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        pass

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        pass

    def run_finished(self, name: str, summary: str) -> None:
        pass

    def close(self) -> None:
        pass


#: Seconds without a line of a run, if one of its epochs ends after them; and within an epoch that takes longer.
SILENT_AT_MOST, SILENT_WITHIN_EPOCH = 60.0, 30.0


@dataclass
class _Shown:
    """What a reporter remembers of a run that goes on."""

    epochs: int
    next_epoch: int  # whose end has a line
    last_line: float
    since: tuple[int, float] | None  # epochs done and time, from which its speed is told
    last_sign: float  # when an epoch ended, or a line told how far one is
    result: str | None = None  # the newest


class _SayingOnce(ABC):
    """Remembers what was said, so that what many runs share is shown once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    @abstractmethod
    def say(self, text: str) -> None: ...

    def say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def warn(self, text: str) -> None:
        self.say_once(f"warning: {text}")


class PlainReporter(_SayingOnce):
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
        self._runs: dict[str, _Shown] = {}
        self._last_line = 0.0

    def say(self, text: str) -> None:
        stream = ProgressStream(sys.stderr if self._stream is None else self._stream)
        stream.write(printable(text) + "\n")
        stream.flush()

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        now = self._last_line = self._clock()
        # A run that goes on may do so in the middle of an epoch: its speed shows from the end of that one on.
        self._runs[name] = _Shown(epochs, first_epoch, now, None if first_epoch else (0, now), now)
        going_on = f", going on after {first_epoch}" if first_epoch else ""
        self.say(f"{name}: {epochs} epoch{'s' * (epochs != 1)}{going_on}")

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        shown = self._runs.get(name)
        if shown is None:
            return
        shown.result = result_text(record) or shown.result
        done, now = epoch + 1, self._clock()
        shown.last_sign = now
        since = shown.since
        if since is None:
            shown.since = done, now
        due = epoch >= shown.next_epoch or now - shown.last_line >= SILENT_AT_MOST
        if not due or now - self._last_line < 1:
            return
        self._last_line = shown.last_line = now
        shown.next_epoch = epoch + max(1, round(shown.epochs / 10))
        parts = [f"{name}: epoch {done}/{shown.epochs}", *progress_texts(record, shown.result)]
        left = shown.epochs - done
        if left > 0 and since is not None:
            seconds_per_epoch = (now - since[1]) / (done - since[0])
            parts.append(f"{duration_text(left * seconds_per_epoch)} left")
        self.say(", ".join(parts))

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        shown, now = self._runs.get(name), self._clock()
        if shown is None or now - shown.last_sign < SILENT_WITHIN_EPOCH:
            return
        shown.last_sign = now
        self.say(f"{name}: {100 * share:.0f} % of epoch {epoch + 1}/{shown.epochs}")

    def run_finished(self, name: str, summary: str) -> None:
        self._runs.pop(name, None)
        self.say(f"{name}: {summary}")

    def close(self) -> None:
        pass


class RichReporter(_SayingOnce):
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
        self._results: dict[str, str] = {}  # the newest of each run

    def say(self, text: str) -> None:
        print_wrapped(self._console, text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        if self._progress is None:
            from procrustean.base.live_bars import LiveBars

            self._progress = LiveBars(self._console)
            atexit.register(self.close)  # an interrupted program must not leave the cursor hidden
            self._progress.start()
        if name in self._tasks:  # it goes on after its process was replaced
            self._progress.remove_task(self._tasks[name])
        self._tasks[name] = self._progress.add_task(
            printable(name), total=epochs, completed=first_epoch, record={}, result=None
        )

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        if self._progress is None or name not in self._tasks:
            return
        result = result_text(record) or self._results.get(name)
        if result is not None:
            self._results[name] = result
        self._progress.update(self._tasks[name], completed=epoch + 1, record=record, result=result)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        if self._progress is not None and name in self._tasks:
            self._progress.update(self._tasks[name], completed=epoch + share)

    def run_finished(self, name: str, summary: str) -> None:
        from rich.text import Text

        if self._progress is not None and name in self._tasks:
            if len(self._tasks) == 1:
                self.close()
            else:
                self._progress.refresh()  # shows the last numbers before the bar goes
                self._progress.remove_task(self._tasks.pop(name))
                self._results.pop(name, None)
        self._console.print(Text.assemble(("✓ ", "green"), (printable(name), "bold"), "  ", printable(summary)))

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._tasks, self._results = {}, {}
            atexit.unregister(self.close)


def make_reporter(quiet: bool = False) -> Reporter:
    """The reporter that suits stderr: live bars on a terminal, lines elsewhere, warnings alone when quiet."""
    if quiet:
        return SilentReporter()
    return RichReporter() if can_show_bars() else PlainReporter()


@contextmanager
def reporting(quiet: bool = False) -> Iterator[Reporter]:
    """The same reporter for a while; the terminal is as it was afterwards, also where an error ends it."""
    reporter = make_reporter(quiet)
    try:
        yield reporter
    finally:
        reporter.close()


def can_show_bars() -> bool:
    """Whether stderr is a terminal on which a line can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def command_text(*words: object) -> str:
    """A command of this program as it can be pasted into a shell.

    >>> command_text("resume", "runs/my cells")
    "procrustean resume 'runs/my cells'"
    """
    return shlex.join(["procrustean", *map(str, words)])


def progress_texts(record: dict[str, Any], result: str | None) -> list[str]:
    """Loss, newest result and speed, each where known.

    >>> progress_texts({"loss": 0.51234, "images_per_second": 45123.0}, "test accuracy 81.2 %")
    ['loss 0.512', 'test accuracy 81.2 %', '45,123 images/s']
    """
    texts = []
    if record.get("loss") is not None:
        texts.append(f"loss {record['loss']:.3f}")
    if result is not None:
        texts.append(result)
    if record.get("images_per_second") is not None:
        texts.append(f"{record['images_per_second']:,.0f} images/s")
    return texts


def result_text(record: dict[str, Any]) -> str | None:
    """The result of an epoch that is shown, if it was measured: of the test images, if the record has one of them.

    >>> held_out = {"headline": "accuracy", "accuracy": 0.9, "balanced_accuracy": 0.5}
    >>> result_text({"test": {"headline": "accuracy", "accuracy": 0.8125}, "held_out": held_out})
    'test accuracy 81.2 %'
    >>> result_text({"held_out": held_out})
    'held-out balanced accuracy 50.0 %'
    """
    if "test" in record:
        return headline_text(record["test"])
    return held_out_text(record["held_out"]["balanced_accuracy"]) if "held_out" in record else None


def held_out_text(balanced_accuracy: float) -> str:
    """What choices are made by, with its name."""
    return f"held-out balanced accuracy {100 * balanced_accuracy:.1f} %"


def headline_text(test: dict[str, Any]) -> str:
    """The headline of a test result with its name.

    >>> headline_text({"headline": "balanced_accuracy", "balanced_accuracy": 0.5})
    'test balanced accuracy 50.0 %'
    """
    name = test["headline"]
    return f"test {name.replace('_', ' ')} {100 * test[name]:.1f} %"


def duration_text(seconds: float) -> str:
    """A length of time as people say it.

    >>> duration_text(42), duration_text(200), duration_text(8000)
    ('42 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
