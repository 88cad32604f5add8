"""The machine: how many cores and how much memory this process may use, and what others take of them."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

#: Where Linux keeps the share of the cores that a container gets.
LIMIT = Path("/sys/fs/cgroup/cpu.max")
#: What is written before a command that is to compute with one thread.
ONE_THREAD = "OMP_NUM_THREADS=1"
#: The share of this process's threads that other programs have to keep waiting before they are blamed.
CROWDED = 0.25
#: What is taken for free where the system does not tell: what a small machine has.
SMALL_MACHINE = 4 << 30
#: A file that unpacks to more than both is made to exhaust the memory: real arrays, images and tables do not shrink
#: like that.
MOST_BYTES, MOST_TIMES = 1 << 30, 200
#: About when this process began to compute.
_BEGAN = time.monotonic()


def usable_cores() -> int:
    """Cores this process may use, a container's limit included."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if LIMIT.exists():
        quota, _, period = LIMIT.read_text().partition(" ")
        if quota.strip().isdigit():
            cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def load_average() -> float | None:
    """Programs that wanted to compute in the last minute, on the average; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # not on Windows, and not in every container
        return None


def others_compute(threads: int) -> bool:
    """Whether other programs compute on cores that this one's threads need; False where the system does not tell.

    Args:
        threads: that this process computes with.
    """
    load, cores = load_average(), os.cpu_count() or 1  # both of the whole machine, whatever part of it may be used
    if load is None:
        return False
    others = load - own_load(threads, time.monotonic() - _BEGAN)
    return others > max(0, cores - threads) + CROWDED * threads


def own_load(threads: int, seconds: float) -> float:
    """What a process can have added to the load average of a minute, which follows slowly.

    >>> [round(own_load(2, seconds), 1) for seconds in (0, 10, 60, 600)]
    [0.0, 0.3, 1.3, 2.0]
    """
    return threads * (1 - math.exp(-seconds / 60))


def slow_threads(threads: int) -> str:
    """What becomes of several threads beside other programs, in words.

    >>> slow_threads(2)
    '2 threads, which wait for one another, are then often many times slower than one'
    """
    return f"{threads} threads, which wait for one another, are then often many times slower than one"


def available_memory() -> int | None:
    """Bytes that can be taken without others being pushed out; None where the system does not tell."""
    listing = Path("/proc/meminfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    available = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return available[0] if available else None


def free_memory() -> int:
    """The same, with a guess where the system does not tell."""
    available = available_memory()
    return SMALL_MACHINE if available is None else available


def most_unpacked(size: int) -> int:
    """What files of so many bytes may unpack to."""
    return max(MOST_BYTES, MOST_TIMES * size)
