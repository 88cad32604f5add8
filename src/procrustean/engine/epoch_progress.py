"""How far an epoch is, told while it goes on: a long one must not look like a program that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

from procrustean.base.progress import Reporter

#: Seconds between two signs; what shows them decides which are worth a line.
SPACING = 1.0


class SignsOfLife:
    """Tells a reporter from time to time which part of an epoch is done.

    Args:
        reporter: told.
        name: the run.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, reporter: Reporter, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._name, self._clock = reporter, name, clock
        self._told = clock()

    def steps_done(self, step: int, steps: int, epoch: int) -> None:
        """So many of the steps of an epoch are done."""
        now = self._clock()
        if now - self._told >= SPACING:
            self._told = now
            self._reporter.within_epoch(self._name, epoch, step / steps)
