"""Whether a CPU trains much slower than expected, as one does whose cores other programs use; said once, with the cure.

The number of threads is the user's to change: the results depend on it in their last digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

#: Seconds of steps after which their speed is judged.
PATIENCE = 10.0
#: How many times slower than reckoned training is told to be slow. What is reckoned is half the usual speed already.
SEVERAL = 3.0


def is_slow(speed: float, expected: float) -> bool:
    """Whether so many images per second are so few that it is worth a word."""
    return SEVERAL * speed < expected


class SlowSteps:
    """Times the steps of a run on a CPU and tells once if they are slow.

    Args:
        tell: told the images per second so far, those expected, and the threads that compute.
        expected: images per second, roughly; asked for once.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        tell: Callable[[float, float, int], None],
        expected: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._expected, self._clock = tell, expected, clock
        self._images, self._seconds, self._began = 0, 0.0, 0.0
        self._warm = self._over = False

    def begin(self) -> None:
        """Steps begin. What is done between steps, tests and turns of other runs, is not counted."""
        self._began = self._clock()

    def done(self, images: int) -> None:
        """Steps with so many images are done."""
        if self._over:
            return
        if not self._warm:  # the first steps fill caches
            self._warm = True
            return
        self._images += images
        self._seconds += self._clock() - self._began
        if self._seconds < PATIENCE:
            return
        self._over = True
        speed, threads = self._images / self._seconds, torch.get_num_threads()
        if threads > 1 and is_slow(speed, expected := self._expected()):
            self._tell(speed, expected, threads)
