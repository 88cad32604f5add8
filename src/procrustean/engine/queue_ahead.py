"""How far a run may queue ahead of the device, so that the runs of a fleet do not wait for each other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import torch

#: Chunks of steps that may wait on the device: one at work, one behind it.
IN_FLIGHT = 2
LARGEST_CHUNK = 32
#: Seconds the host may spend on queueing a chunk. A step of thousands of kernels takes milliseconds to queue, and the
#: host stands still when the device's queue is full: with long chunks of such steps all other runs would wait as well.
LONG, SHORT = 4e-3, 1e-3


class Pace:
    """Chooses how many steps are queued at a time, and when."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.chunk = 4 if self.on_gpu else 1
        self.queued: deque[torch.cuda.Event] = deque()

    def queue(self, advance: Callable[[int], int]) -> int:
        """Have a chunk of steps queued; returns how many there were."""
        began = time.perf_counter()
        done = advance(self.chunk)
        if self.on_gpu:
            event = torch.cuda.Event()
            event.record()
            self.queued.append(event)
            self.chunk = adapted(self.chunk, time.perf_counter() - began)
        return done

    def until_few_are_queued(self) -> Iterator[None]:
        """Yield until there is room for another chunk."""
        yield from self._until(IN_FLIGHT - 1)

    def until_all_is_done(self) -> Iterator[None]:
        """Yield until the device has caught up."""
        yield from self._until(0)

    def _until(self, left: int) -> Iterator[None]:
        while len(self.queued) > left:
            if self.queued[0].query():
                self.queued.popleft()
            else:
                yield


def adapted(chunk: int, seconds: float) -> int:
    """The next chunk: shorter if this one took long to queue, longer if it took little.

    >>> adapted(8, 0.0002), adapted(8, 0.002), adapted(8, 0.02), adapted(1, 0.02)
    (16, 8, 4, 1)
    """
    if seconds > LONG:
        return max(1, chunk // 2)
    return min(2 * chunk, LARGEST_CHUNK) if seconds < SHORT else chunk
