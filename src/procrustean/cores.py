"""How many cores this process may compute on, and what to do where other programs use them."""

from __future__ import annotations

import os
from pathlib import Path

#: Where Linux keeps the share of the cores that a container gets.
LIMIT = Path("/sys/fs/cgroup/cpu.max")
#: What is written before a command that is to compute with one thread.
ONE_THREAD = "OMP_NUM_THREADS=1"


def usable_cores() -> int:
    """Cores this process may use, a container's limit included."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if LIMIT.exists():
        quota, _, period = LIMIT.read_text().partition(" ")
        if quota.strip().isdigit():
            cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def slow_threads(threads: int) -> str:
    """What becomes of several threads beside other programs, in words.

    >>> slow_threads(2)
    '2 threads, which wait for one another, are then often many times slower than one'
    """
    return f"{threads} threads, which wait for one another, are then often many times slower than one"
