"""Worker processes answer, report what went wrong, and end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from procrustean.base import RunError
from procrustean.base.stop_signals import SIGNALS
from procrustean.data.workers import WorkerPool

TASKS = """
import os, signal, time
def double(x): return 2 * x
def noisy(x): print("printed"); return x
def fails(x): raise ValueError(f"cannot do {x}")
def dies(x): os.kill(os.getpid(), signal.SIGKILL)
def slow(x): time.sleep(x); return os.getpid()
def signalled(x): os.kill(os.getpid(), x); time.sleep(0.05); return x
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[WorkerPool]]:
    (tmp_path / "worker_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    tasks = import_module("worker_tasks")
    made: list[WorkerPool] = []

    def start(name: str) -> WorkerPool:
        made.append(WorkerPool(getattr(tasks, name), 2))
        return made[-1]

    yield start  # type: ignore[misc]
    for one in made:
        one.close()


def test_jobs_are_answered_whatever_they_print(pool: type[WorkerPool]) -> None:
    doubling = pool("double")
    assert [doubling.run(n) for n in range(3)] == [0, 2, 4]
    assert np.array_equal(doubling.run(np.arange(100_000)), 2 * np.arange(100_000))
    assert pool("noisy").run("x") == "x"


def test_as_many_processes_as_jobs_at_a_time(pool: type[WorkerPool]) -> None:
    slow, found = pool("slow"), []
    threads = [threading.Thread(target=lambda: found.append(slow.run(0.3))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2
    assert slow.run(0) in found, "idle processes are used again"


def test_errors_are_told_with_their_reason(pool: type[WorkerPool]) -> None:
    failing = pool("fails")
    with pytest.raises(ValueError, match="cannot do 3"):
        failing.run(3)
    with pytest.raises(RunError, match=r"(?s)ended in the middle of its work; .* fewer --workers .*SIGKILL\(-9\)"):
        pool("dies").run(0)


@pytest.mark.parametrize("number", SIGNALS)
def test_what_stops_the_program_does_not_end_its_workers(number: int, pool: type[WorkerPool]) -> None:
    """A scheduler signals all processes of a job; the program still needs the batch that is being made."""
    assert pool("signalled").run(int(number)) == number


def test_closing_ends_the_processes(pool: type[WorkerPool]) -> None:
    slow = pool("slow")
    process = slow.run(0)
    slow.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(RunError, match="have been ended"):
        slow.run(0)
