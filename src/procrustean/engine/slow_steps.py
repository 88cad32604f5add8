"""Whether a CPU trains much slower than expected because other programs use its cores; said once, with the cure.

What is expected is reckoned from the multiplications of a network, at the rate of a ResNet. Some networks are many
times slower on a machine that has nothing else to do, so that slowness alone says nothing about other programs: the
load average has to show them as well. Where the system has none, nothing is said.

The number of threads is the user's to change: the results depend on it in their last digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch

from procrustean.base.cores import others_compute

#: Seconds of steps whose speed is judged together.
PATIENCE = 10.0
#: How many times slower than reckoned training is told to be slow. What is reckoned is half the usual speed already.
SEVERAL = 3.0


def slowed_by_others(speed: float, expected: float, threads: int) -> bool:
    """Whether so many images per second are far too few, and other programs use the cores.

    Args:
        speed: images per second that were measured.
        expected: those that were reckoned with.
        threads: that compute; a single one waits for no other.
    """
    return threads > 1 and SEVERAL * speed < expected and others_compute(threads)


class SlowSteps:
    """Times the steps of a run on a CPU and tells once if other programs make them slow.

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
        self._tell, self._expected, self._clock = tell, cache(expected), clock
        self._images, self._seconds, self._began = 0, 0.0, 0.0
        self._warm = self._told = False

    def begin(self) -> None:
        """Steps begin. What is done between steps, tests and turns of other runs, is not counted."""
        self._began = self._clock()

    def done(self, images: int) -> None:
        """Steps with so many images are done."""
        if self._told:
            return
        if not self._warm:  # the first steps fill caches
            self._warm = True
            return
        self._images += images
        self._seconds += self._clock() - self._began
        if self._seconds < PATIENCE:
            return
        speed, threads = self._images / self._seconds, torch.get_num_threads()
        self._images, self._seconds = 0, 0.0  # other programs may begin later, and the load average follows slowly
        if slowed_by_others(speed, expected := self._expected(), threads):
            self._told = True
            self._tell(speed, expected, threads)
