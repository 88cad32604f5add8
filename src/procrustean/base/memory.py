"""How much memory there is, and how much of it a file may take."""

from __future__ import annotations

from pathlib import Path

#: What is taken for free where the system does not tell: what a small machine has.
SMALL_MACHINE = 4 << 30
#: A file that unpacks to more than both is made to exhaust the memory: real arrays, images and tables do not shrink
#: like that.
MOST_BYTES, MOST_TIMES = 1 << 30, 200


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
