"""Photographs that probably belong together, as two of one tray of fruit do, told by the features of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from procrustean.data.duplicates import Groups
from procrustean.data.image_groups import LikelyGroups
from procrustean.data.imageset import Indices, Labels

#: Two images are a pair if each is the other's nearest of the class, and for both the fifth nearest is much farther:
#: the distance to the nearest is less than this share of the distance to the fifth.
FIFTH, NEARER = 5, 0.7
#: Of sets of independent photographs 0 to 4 % are in such pairs, of one taken in bursts 23 %. Nothing is said of a set
#: with no more than SHARE, of a side with fewer partners among trained images, or of few images.
SHARE, SHARE_OF_A_SIDE, FEWEST = 0.15, 0.1, 100
HOW = "features far closer to each other than to others of the class"
#: Images that are compared with all of their class at a time.
_AT_ONCE = 512

Features = npt.NDArray[np.float32]


def pairs_by_features(features: Features, labels: Labels, copies: Groups, names: Sequence[str]) -> LikelyGroups | None:
    """The pairs, if there are more of them than chance makes.

    A random split is no reason to look at the two sides of it alone: images of one tray are as close to each other in
    the training images as they are across the split. So all images are compared with the others of their class.

    Args:
        features: of images, [N, width].
        labels: of the images, [N].
        copies: groups of near-duplicates, [N]. They are known, and no pair.
        names: of the images.
    """
    if len(features) < FEWEST:
        return None
    shown = features - features.mean(axis=0)
    shown /= np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    of: dict[str, str] = {}
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if len(rows) <= FIFTH:
            continue
        nearest, is_near = _nearest(shown[rows], copies[rows])
        here = np.arange(len(rows))
        for one in here[is_near & is_near[nearest] & (nearest[nearest] == here)]:
            of[names[rows[one]]] = names[rows[min(one, nearest[one])]]
    if len(of) <= SHARE * len(features):
        return None
    return LikelyGroups(HOW, of, by_chance=SHARE_OF_A_SIDE)


def _nearest(shown: Features, copies: Groups) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """The nearest image of each, and whether it is much nearer than the fifth."""
    nearest, is_near = np.empty(len(shown), np.int64), np.empty(len(shown), bool)
    for start in range(0, len(shown), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        squared = np.maximum(2 - 2 * shown[part] @ shown.T, 0)
        squared[copies[part, None] == copies] = np.inf  # each image is a copy of itself
        nearest[part] = squared.argmin(axis=1)
        fifth = np.partition(squared, FIFTH - 1, axis=1)[:, FIFTH - 1]
        is_near[part] = (squared.min(axis=1) < NEARER**2 * fifth) & np.isfinite(fifth)
    return nearest, is_near
