"""Recalls of large and small classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from procrustean.balance.metrics import class_groups


def recall_by_size(recall: Sequence[float | None], counts: Sequence[int]) -> dict[str, float | None]:
    """Mean recall of each group of `class_groups`, over its classes that have test images; None without any.

    >>> recall_by_size([0.9, 0.5, None], [500, 50, 5])["many"]
    0.9
    """
    values = np.array([np.nan if value is None else value for value in recall], dtype=np.float64)
    means = {}
    for name, members in class_groups(counts).items():
        known = values[members & ~np.isnan(values)]
        means[name] = float(known.mean()) if known.size else None
    return means
