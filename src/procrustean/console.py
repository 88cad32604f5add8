"""What a user sees while runs go on: live bars on a terminal, plain lines elsewhere.

Progress goes to stderr and results to stdout, so that a result can be piped while progress stays visible.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from procrustean.report.formats import Table


class Reporter(Protocol):
    """Told what happens during training. Epochs count from 0, as in the records; readers see them from 1."""

    def say(self, text: str) -> None:
        """Shows one message."""

    def run_started(self, label: str, epochs: int, first_epoch: int) -> None:
        """A run of `epochs` epochs begins, or goes on, at `first_epoch`."""

    def epoch_done(self, epoch: int, record: dict[str, Any]) -> None:
        """`record` has loss, lr, images_per_second and, where it was measured, test_accuracy (0..1)."""

    def run_finished(self, label: str, summary: str) -> None:
        """The run is complete; `summary` is what came out, in one line."""

    def close(self) -> None:
        """Leaves the terminal as it was, also in the middle of a run; the reporter can be used again."""


class SilentReporter:
    """Shows nothing."""

    def say(self, text: str) -> None:
        pass

    def run_started(self, label: str, epochs: int, first_epoch: int) -> None:
        pass

    def epoch_done(self, epoch: int, record: dict[str, Any]) -> None:
        pass

    def run_finished(self, label: str, summary: str) -> None:
        pass

    def close(self) -> None:
        pass


class PlainReporter:
    """Lines of text for logs, notebooks and pipes: about ten per run, at most one per second.

    Args:
        stream: where to write; by default what sys.stderr is at the time of writing.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._label = ""
        self._epochs = self._first_epoch = 0
        self._started = self._last_line = 0.0
        self._next_epoch = 0
        self._accuracy: float | None = None

    def say(self, text: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(text + "\n")
        stream.flush()

    def run_started(self, label: str, epochs: int, first_epoch: int) -> None:
        self._label, self._epochs, self._first_epoch = label, epochs, first_epoch
        self._started = self._last_line = self._clock()
        self._next_epoch = first_epoch
        self._accuracy = None
        going_on = f", going on after {first_epoch}" if first_epoch else ""
        self.say(f"{label}: {epochs} epochs{going_on}")

    def epoch_done(self, epoch: int, record: dict[str, Any]) -> None:
        self._accuracy = record.get("test_accuracy", self._accuracy)
        now = self._clock()
        if epoch < self._next_epoch or now - self._last_line < 1:
            return
        self._last_line = now
        self._next_epoch = epoch + max(1, round(self._epochs / 10))
        parts = [f"{self._label}: epoch {epoch + 1}/{self._epochs}", *progress_texts(record, self._accuracy)]
        left = self._epochs - epoch - 1
        if left > 0:
            seconds_per_epoch = (now - self._started) / (epoch + 1 - self._first_epoch)
            parts.append(f"{duration_text(left * seconds_per_epoch)} left")
        self.say(", ".join(parts))

    def run_finished(self, label: str, summary: str) -> None:
        self.say(f"{label}: {summary}")

    def close(self) -> None:
        pass


class RichReporter:
    """A live bar for the run that goes on, and one line for each that is finished.

    Args:
        console: a rich console; by default one on stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        if console is None:
            from rich.console import Console

            console = Console(stderr=True)
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._accuracy: float | None = None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def run_started(self, label: str, epochs: int, first_epoch: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.close()
        self._accuracy = None
        self._progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=10)),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}", style="dim", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            expand=True,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(label, total=epochs, completed=first_epoch, numbers="")
        atexit.register(self.close)  # an interrupted program must not leave the cursor hidden
        self._progress.start()

    def epoch_done(self, epoch: int, record: dict[str, Any]) -> None:
        if self._progress is None or self._task is None:
            return
        self._accuracy = record.get("test_accuracy", self._accuracy)
        numbers = ", ".join(progress_texts(record, self._accuracy))
        self._progress.update(self._task, completed=epoch + 1, numbers=numbers)

    def run_finished(self, label: str, summary: str) -> None:
        from rich.text import Text

        self.close()
        self._console.print(Text.assemble(("✓ ", "green"), (label, "bold"), "  ", summary), soft_wrap=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None
            atexit.unregister(self.close)


def make_reporter(quiet: bool = False) -> Reporter:
    """The reporter that suits stderr: live bars on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return SilentReporter()
    if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        return RichReporter()
    return PlainReporter()


def write_result(result: str | Table) -> None:
    """Writes a result to stdout: a table is drawn on a terminal and written as markdown elsewhere."""
    if isinstance(result, str):
        text = result if result.endswith("\n") else result + "\n"
    elif sys.stdout.isatty():
        from rich.console import Console

        from procrustean.report.formats import to_rich

        console = Console()
        console.print(to_rich(result, width=console.width))
        return
    else:
        from procrustean.report.formats import to_markdown

        text = to_markdown(result)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # A terminal that cannot show "±" should show the numbers all the same.
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
    sys.stdout.flush()


def progress_texts(record: dict[str, Any], accuracy: float | None) -> list[str]:
    """Loss, newest accuracy and speed, each where known.

    >>> progress_texts({"loss": 0.51234, "images_per_second": 45123.0}, 0.8125)
    ['loss 0.512', 'accuracy 81.2 %', '45,123 images/s']
    """
    texts = []
    if record.get("loss") is not None:
        texts.append(f"loss {record['loss']:.3f}")
    if accuracy is not None:
        texts.append(f"accuracy {100 * accuracy:.1f} %")
    if record.get("images_per_second") is not None:
        texts.append(f"{record['images_per_second']:,.0f} images/s")
    return texts


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
