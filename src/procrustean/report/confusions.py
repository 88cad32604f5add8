"""Which classes are taken for which others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from procrustean.records.groups import Group, Selection


@dataclass(frozen=True)
class Confusion:
    """Test images of one class predicted as another, over all runs of a setting."""

    true: int
    predicted: int
    images: int
    of: int  # test images of the true class, over all runs

    @property
    def share(self) -> float:
        return self.images / self.of


def summed_confusion(group: Group, selection: Selection = "last") -> NDArray[np.int64] | None:
    """The confusion matrices of a setting added up, rows true classes; None where a run keeps none."""
    total = np.zeros((len(group.classes), len(group.classes)), dtype=np.int64)
    for result in group.results:
        metrics = result.metrics(selection)
        if metrics is None or metrics.confusion is None:
            return None
        total += np.array(metrics.confusion, dtype=np.int64)
    return total


def worst_confusions(matrix: NDArray[np.int64], number: int) -> list[Confusion]:
    """The confusions that take the largest share of a class, larger numbers of images first among equals.

    >>> worst_confusions(np.array([[8, 2], [5, 5]]), 1)
    [Confusion(true=1, predicted=0, images=5, of=10)]
    """
    of = matrix.sum(axis=1)
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    pairs = [
        Confusion(int(true), int(predicted), int(wrong[true, predicted]), int(of[true]))
        for true, predicted in np.argwhere(wrong)
    ]
    return sorted(pairs, key=lambda pair: (-pair.share, -pair.images, pair.true, pair.predicted))[:number]
