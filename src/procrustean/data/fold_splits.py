"""Images in folds, each of which is the test set of one network, so that every image is tested by one that has not
seen it."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np

from procrustean.base.errors import ConfigError, DataError
from procrustean.data.imageset import NO_TEST, ImageSet, Indices, Splits, together
from procrustean.data.set_aside import groups_of, joined

#: All images for training, after the folds have been tested.
ALL = "all"
_ONE_OF = re.compile(r"(\d{1,4})/(\d{1,4})")
SEED = 0


def checked_fold(fold: str) -> tuple[int, int] | None:
    """Number and how many folds there are, of "2/5"; None for all images together."""
    if fold == ALL:
        return None
    found = _ONE_OF.fullmatch(fold)
    number, folds = (int(part) for part in found.groups()) if found else (0, 0)
    if not 1 <= number <= folds or folds < 2:
        raise ConfigError(f"fold = {fold!r} received; write 2/5 for the second of five, or {ALL}")
    return number, folds


def in_fold(splits: Splits, fold: str) -> Splits:
    """The images of a source with one fold for tests.

    Folds are made of all images of a source without test images, and of the training images of one with them. What
    belongs together is in one fold. Images of classes that are one group in all are in none: they
    are always trained on.

    Args:
        splits: as the source gives them.
        fold: "2/5" for the second of five, "all" to train on all of them: on test images only if the source has them.
    """
    part = checked_fold(fold)
    own_test = splits.aside is None
    whole = splits.train if own_test else _together(splits)
    if part is None:
        if own_test:
            return splits
        note = f"{NO_TEST}: all images are trained on"
        return replace(splits, train=whole, test=whole, note=note, aside=None)
    number, folds = part
    member = fold_of(whole, folds)
    test = np.flatnonzero(member == number - 1)
    if not len(test):
        raise DataError(f"{splits.name}: fold {fold} has no images; take fewer folds")
    note = f"fold {number} of {folds}: {len(test)} images are tested, and nothing that belongs to them is trained on"
    train = whole.subset(np.flatnonzero(member != number - 1))
    return replace(splits, train=train, test=whole.subset(test), note=note, aside=None)


def fold_of(images: ImageSet, folds: int) -> Indices:
    """The fold of each image, about as many of each class in every one; -1 for images that are in none."""
    from sklearn.model_selection import StratifiedGroupKFold

    groups = joined(images) if images.groups else groups_of(images)
    largest = int(images.counts.max())
    if folds > min(largest, there := len(np.unique(groups))):
        raise ConfigError(f"{folds} folds of {there} groups of images, {largest} images of a class at most; take fewer")
    member = np.full(len(images), -1, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes with fewer images than folds are not in all of them
        maker = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED)
        for number, (_, test) in enumerate(maker.split(np.zeros(len(images)), images.labels, groups)):
            member[test] = number
    for label in range(len(images.classes)):
        own = images.labels == label
        if len(np.unique(member[own])) == 1:  # without this fold nothing of the class would be left
            member[np.isin(groups, groups[own])] = -1
    return member


def _together(splits: Splits) -> ImageSet:
    """The training images before some were set aside for tests."""
    train, test = splits.train, splits.test
    assert splits.aside is not None
    total = len(train) + len(test)
    order = np.argsort(np.concatenate([np.setdiff1d(np.arange(total), splits.aside), splits.aside]))
    names, groups = train.names + test.names, train.groups + test.groups
    labels = np.concatenate([train.labels, test.labels])
    return ImageSet(together([train.images, test.images]), labels, train.classes, names, groups).subset(order)
