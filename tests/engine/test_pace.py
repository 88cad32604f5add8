"""A run queues no further than two chunks ahead, and shorter chunks where queueing takes long."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from procrustean.engine import side_by_side
from procrustean.engine.side_by_side import Pace


class Event:
    """A stand-in for torch.cuda.Event that is done when told."""

    made: ClassVar[list[Event]] = []

    def __init__(self) -> None:
        self.done = False
        Event.made.append(self)

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return self.done


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Pace:
    Event.made = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    return Pace(torch.device("cuda"))


def test_a_third_chunk_waits_for_the_first(on_gpu: Pace) -> None:
    for _ in range(2):
        assert list(on_gpu.until_few_are_queued()) == []
        on_gpu.queue(lambda count: count)
    waiting = on_gpu.until_few_are_queued()
    assert next(waiting) is None
    assert next(waiting) is None
    Event.made[0].done = True
    assert list(waiting) == []


def test_waiting_for_all_ends_with_the_last(on_gpu: Pace) -> None:
    for _ in range(2):
        on_gpu.queue(lambda count: count)
    Event.made[0].done = True
    waiting = on_gpu.until_all_is_done()
    assert next(waiting) is None
    Event.made[1].done = True
    assert list(waiting) == []


def test_chunks_follow_the_time_it_takes_to_queue_them(on_gpu: Pace, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    seconds = 0.0
    monkeypatch.setattr(side_by_side.time, "perf_counter", lambda: next(clock) * seconds)
    asked = []

    def advance(count: int) -> int:
        asked.append(count)
        return count

    for _ in range(5):
        on_gpu.queue(advance)
    assert asked == [4, 8, 16, 32, 32]
    seconds = 1.0
    for _ in range(7):
        on_gpu.queue(advance)
    assert asked[5:] == [32, 16, 8, 4, 2, 1, 1]


def test_a_cpu_does_one_step_at_a_time_and_never_waits() -> None:
    run = Pace(torch.device("cpu"))
    assert [run.queue(lambda count: count) for _ in range(9)] == [1] * 9
    assert list(run.until_few_are_queued()) == list(run.until_all_is_done()) == []
