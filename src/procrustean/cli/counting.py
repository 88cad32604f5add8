"""Progress of work that is counted in images: a bar on a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from procrustean.base.console import can_show_bars, duration_text


@contextmanager
def counting(what: str, say: Callable[[str], None]) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with the number done and the number in all."""
    if can_show_bars():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(what)
            yield lambda done, total: bars.update(task, completed=done, total=total)
        return
    yield _Lines(what, say)


class _Lines:
    def __init__(self, what: str, say: Callable[[str], None]) -> None:
        self._what, self._say = what, say
        self._began, self._first, self._tenth = time.monotonic(), -1, 0

    def __call__(self, done: int, total: int) -> None:
        if self._first < 0:
            self._first = done
        tenth = 10 * done // total
        if tenth <= self._tenth or done <= self._first:
            return
        self._tenth = tenth
        seconds = (time.monotonic() - self._began) * (total - done) / (done - self._first)
        left = f", {duration_text(seconds)} left" if done < total else ""
        self._say(f"{self._what}: {done:,} of {total:,} images{left}")
