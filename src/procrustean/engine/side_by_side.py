"""Many runs side by side on one device: each with its own network, random numbers, stream, records and checkpoints.

One thread lets the runs take turns at queueing steps; the device works on all their streams at once. A run that fails
is taken out, the others go on. A run draws the same random numbers here as alone.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from procrustean.engine.device import give_back, take_stream

#: Share of a device's memory that runs may take together.
USABLE = 0.9


@dataclass
class Member:
    """A run of the fleet."""

    name: str
    cost: float  # predicted, in any common unit; the most expensive start first
    start: Callable[[], Iterator[None]]  # begins the run; the iterator yields between chunks of steps
    stream: torch.cuda.Stream | None = None
    turns: Iterator[None] | None = None
    error: Exception | None = None
    done: bool = False

    def on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def run_fleet(
    members: Sequence[Member],
    *,
    width: int,
    device: torch.device,
    may_start: Callable[[int], bool] = lambda active: True,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run all members to their end, at most `width` at a time; errors are kept in the member they belong to.

    Args:
        members: the runs; `start` is called when a place is free.
        width: most runs at a time.
        device: where they run; each gets a stream of its own on a GPU.
        may_start: asked with the number of active runs before another one starts (memory, time).
        stop: once it says so, no further run is started; the active ones save themselves.
    """
    waiting = sorted(members, key=lambda member: -member.cost)
    active: list[Member] = []
    while waiting or active:
        if stop():
            waiting = []
        # One at a time: only when it has taken a turn is it known how much memory it needs.
        if waiting and len(active) < width and (not active or may_start(len(active))):
            member = waiting.pop(0)
            if device.type == "cuda":
                member.stream = take_stream(device)
            active.append(member)
        for member in list(active):
            _take_turn(member)
            if member.done:
                active.remove(member)
                if member.stream is not None:
                    give_back(member.stream)


def _take_turn(member: Member) -> None:
    try:
        with member.on_stream():
            if member.turns is None:
                member.turns = member.start()
            next(member.turns)
    except StopIteration:
        member.done = True
    except Exception as error:
        member.error, member.done = error, True
        _forget_frames(error)
    if member.done:
        member.turns = None


def _forget_frames(error: BaseException) -> None:
    """Free what tracebacks hold: network and images of the failed run, while the others go on.

    An error that came of another one holds on to that one's as well.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


def memory_allows(device: torch.device) -> Callable[[int], bool]:
    """Whether the device has room for one more run of the average size of those active."""

    def allowed(active: int) -> bool:
        if device.type != "cuda":
            return True
        free, total = torch.cuda.mem_get_info(device)
        used = torch.cuda.memory_reserved(device)
        return free - (1 - USABLE) * total > used / max(active, 1)

    return allowed


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
