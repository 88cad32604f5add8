"""Take images of every class away from a set, near-duplicates only together, rare classes only in part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from procrustean.data.by_class import positions_by_class
from procrustean.data.duplicates import Groups, fingerprints, near_duplicates
from procrustean.data.imageset import ImageSet, Indices, Labels

#: Small classes give up to a quarter of their images, at most this many, so that something can be said about them.
ENOUGH = 10
#: A set is parted when its training is planned and again when it begins, and by every run of a comparison.
_FOUND: WeakKeyDictionary[ImageSet, Groups] = WeakKeyDictionary()


def groups_of(images: ImageSet) -> Groups:
    """Near-duplicates of a set, as equal numbers; they are searched for once."""
    if images not in _FOUND:
        _FOUND[images] = near_duplicates(fingerprints(images.images))
    return _FOUND[images]


def shares(counts: Labels, share: float) -> Labels:
    """How many images each class gives: its share, and up to a quarter of a small class; none of fewer than four.

    >>> shares(np.array([1000, 40, 20, 4, 3]), 0.15).tolist()
    [150, 10, 5, 1, 0]
    """
    least = np.minimum(ENOUGH, counts // 4)
    wanted = np.maximum(np.round(share * counts).astype(np.int64), least)
    return np.where(counts >= 4, np.minimum(wanted, counts - 1), 0)


def part(labels: Labels, groups: Groups, counts: Sequence[int] | Labels, seed: int | npt.NDArray[Any]) -> Indices:
    """Positions of about `counts[c]` images of each class c; a group is taken as a whole or not at all.

    Class by class, one generator shuffles the positions, and images are taken from the front. A group that has more
    images than are still wanted is passed over, and so is one whose images have different labels. Without
    near-duplicates these are the images that `procrustean.data.select` takes.

    Args:
        labels: of the images, [N].
        groups: of near-duplicates, [N].
        counts: wanted images per class.
        seed: of the shuffling.
    """
    random = np.random.RandomState(seed)
    sizes = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.cumsum(sizes)[:-1])
    taken: list[int] = []
    for label, (count, positions) in enumerate(zip(counts, positions_by_class(labels, len(counts)), strict=True)):
        random.shuffle(positions)
        left, seen = int(count), set()
        for position in positions.tolist():
            group = int(groups[position])
            if left == 0:
                break
            if group in seen:
                continue
            seen.add(group)
            together = members[group]
            if len(together) <= left and (labels[together] == label).all():
                taken.extend([position] if len(together) == 1 else together.tolist())
                left -= len(together)
    return np.array(taken, dtype=np.int64)
