"""How many cores this process may compute on, and how busy they are."""

from __future__ import annotations

import os
from pathlib import Path

#: Where Linux keeps the share of the cores that a container gets.
LIMIT = Path("/sys/fs/cgroup/cpu.max")


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
