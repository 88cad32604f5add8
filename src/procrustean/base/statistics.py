"""Mean and spread of repeated runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (None for one run) of a metric over `n` runs, as fractions 0..1."""

    mean: float
    sd: float | None
    n: int
