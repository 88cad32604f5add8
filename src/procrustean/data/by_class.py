"""The images of each class, for all classes at once: thousands of them take one sort, not thousands of scans."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def positions_by_class(labels: Indices, classes: int) -> list[Indices]:
    """Positions of the images of each class, ascending; negative labels belong to none.

    >>> [positions.tolist() for positions in positions_by_class(np.array([1, 0, -1, 1]), 3)]
    [[1], [0, 3], []]
    """
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(classes + 1))
    return [order[start:stop] for start, stop in pairwise(bounds)]
