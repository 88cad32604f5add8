"""The machine: how many cores and how much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path

#: Where Linux keeps the share of the cores that a container gets.
LIMIT = Path("/sys/fs/cgroup/cpu.max")
#: What is taken for free where the system does not tell: what a small machine has.
SMALL_MACHINE = 4 << 30
#: A file that unpacks to more than both is made to exhaust the memory: real arrays, images and tables do not shrink
#: like that.
MOST_BYTES, MOST_TIMES = 1 << 30, 200


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
