"""How long a run will take, said while its first epoch still goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

from procrustean.base.console import duration_text

#: Seconds of training after which it is said. Runs whose epochs are shorter say it themselves, epoch by epoch.
PATIENCE = 10.0


class EarlyEstimate:
    """Tells once, if the first epoch is a long one.

    Args:
        say: told the estimate.
        name: the run.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, say: Callable[[str], None], name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._name, self._clock = say, name, clock
        self._began: tuple[float, int] | None = None  # when, and how many steps had been done by then
        self._over = False

    def steps_done(self, step: int, steps: int, epochs_left: int) -> None:
        """So many of the steps of an epoch are done, with which so many epochs are left."""
        if self._over:
            return
        if self._began is None:
            self._began = self._clock(), step  # the first steps, which compile and fill caches, are not counted
            return
        began, first = self._began
        seconds = self._clock() - began
        if seconds < PATIENCE or step == first:
            return
        epoch = seconds * steps / (step - first)
        left = epoch * (epochs_left - step / steps)
        self._say(f"{self._name}: about {duration_text(epoch)} an epoch, {duration_text(left)} to the end")
        self._over = True

    def epoch_done(self) -> None:
        """From here on the progress itself tells how long the rest will take."""
        self._over = True
