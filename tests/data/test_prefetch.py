"""Results come in the order of the jobs, and a slot is written to only when its result is no longer used."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from procrustean.data.workers import Prefetcher


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("slots", [1, 3])
def test_results_come_in_order(threads: int, slots: int) -> None:
    ahead: Prefetcher[tuple[int, int]] = Prefetcher(threads, slots)

    def job(number: int, slot: int) -> tuple[int, int]:
        time.sleep(0.002 * (number % 3))
        return number, slot

    ahead.start(partial(job, number) for number in range(10))
    assert [ahead.take() for _ in range(10)] == [(n, n % slots) for n in range(10)]
    ahead.close()


def test_no_slot_is_filled_while_its_result_is_used() -> None:
    ahead: Prefetcher[int] = Prefetcher(4, 3)
    buffers = [-1] * 3

    def job(number: int, slot: int) -> int:
        buffers[slot] = number
        return slot

    ahead.start(partial(job, number) for number in range(30))
    for number in range(30):
        slot = ahead.take()
        time.sleep(0.001)
        assert buffers[slot] == number
    ahead.close()


def test_only_so_many_jobs_are_begun_ahead() -> None:
    begun: list[int] = []
    ahead: Prefetcher[None] = Prefetcher(8, 2)

    def job(number: int, slot: int) -> None:
        begun.append(number)

    ahead.start(partial(job, number) for number in range(9))
    ahead.take()
    ahead.take()
    time.sleep(0.02)
    assert len(begun) <= 3
    ahead.close()


def test_starting_again_drops_what_was_left() -> None:
    ahead: Prefetcher[str] = Prefetcher(2, 4)
    gate = threading.Event()

    def slow(name: str, slot: int) -> str:
        gate.wait(5)
        return name

    ahead.start(partial(slow, name) for name in "abcdef")
    threading.Timer(0.05, gate.set).start()
    ahead.start(partial(slow, name) for name in "xyz")
    assert [ahead.take() for _ in range(3)] == ["x", "y", "z"]
    ahead.close()


def test_what_a_job_raises_is_raised_when_its_turn_comes() -> None:
    ahead: Prefetcher[int] = Prefetcher(2, 2)

    def job(number: int, slot: int) -> int:
        return 1 // number

    ahead.start(partial(job, number) for number in (1, 0, 1))
    assert ahead.take() == 1
    with pytest.raises(ZeroDivisionError):
        ahead.take()
    assert ahead.take() == 1
    ahead.close()
