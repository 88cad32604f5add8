"""How far a headline may be from what other test images would say: an interval by the bootstrap."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

LEVEL, RESAMPLES, SEED = 0.95, 2000, 0
#: Resamples whose numbers are held at once.
_AT_ONCE = 200

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def bootstrap_interval(
    right: NDArray[np.bool_],
    labels: Integers,
    groups: Integers | None = None,
    *,
    headline: Literal["accuracy", "balanced_accuracy"] = "balanced_accuracy",
) -> tuple[float, float]:
    """The 95 % interval of a headline, by drawing whole groups of images again, class by class.

    A group counts for the class of which it has most images. Each class is given one more, which is half right: by its
    own alone, a class whose three test images are all right would be certain to have a recall of 1. That widens the
    interval, which stays around the number that was measured. And one less is drawn than there are, since a few groups
    differ less from one another than those they stand for.

    Args:
        right: whether each image was classified correctly, [N].
        labels: classes, [N].
        groups: of images that belong together, [N]; by default each image is drawn by itself.
        headline: accuracy, or the mean recall of the classes.

    >>> low, high = bootstrap_interval(np.arange(100) < 80, np.zeros(100, np.int64))
    >>> 0.7 < low < 0.8 < high < 0.9
    True
    """
    present, classes = np.unique(labels, return_inverse=True)
    random = np.random.default_rng(SEED)
    if groups is None:
        sums, images = _of_images(right, classes, len(present), random)
    else:
        sums, images = _of_groups(right, classes, len(present), groups, random)
    values = _headline(sums, images, headline)
    correct, all_of_them = (np.bincount(classes, weights)[None].astype(np.float64) for weights in (right, None))
    measured = _headline(correct, all_of_them, headline)[0]
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - values.mean() + measured
    return float(max(0.0, low)), float(min(1.0, high))


def _headline(right: Floats, images: Floats, headline: str) -> Floats:
    if headline == "accuracy":
        return np.asarray(right.sum(axis=1) / images.sum(axis=1))
    with np.errstate(invalid="ignore"):  # a class may be in no group of a draw
        return np.asarray(np.nanmean(right / images, axis=1))


def _of_images(
    right: NDArray[np.bool_], classes: Integers, number: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Correct images of each class, and all of them, in every draw [resamples, C]."""
    images = np.bincount(classes, minlength=number)
    share = (np.bincount(classes, right, minlength=number) + 0.5) / (images + 1)
    draws = np.maximum(1, images - 1)
    return random.binomial(draws, share, (RESAMPLES, number)).astype(np.float64), draws[None].astype(np.float64)


def _of_groups(
    right: NDArray[np.bool_], classes: Integers, number: int, groups: Integers, random: np.random.Generator
) -> tuple[Floats, Floats]:
    member = np.unique(groups, return_inverse=True)[1]
    tables = np.zeros((2, member.max() + 1, number))
    np.add.at(tables[0], (member, classes), right)
    np.add.at(tables[1], (member, classes), 1)
    stratum = tables[1].argmax(axis=1)
    drawn: Any = np.zeros((2, RESAMPLES, number))
    for label in np.unique(stratum):
        own = tables[:, stratum == label]
        more = np.zeros((2, 1, number))
        size = own[1].sum() / own.shape[1]
        more[:, 0, label] = size / 2, size
        own = np.concatenate([own, more], axis=1)
        share = np.full(own.shape[1], 1 / own.shape[1])
        for start in range(0, RESAMPLES, _AT_ONCE):
            times = random.multinomial(max(1, own.shape[1] - 2), share, _AT_ONCE)
            drawn[:, start : start + _AT_ONCE] += times @ own
    return drawn[0], drawn[1]
