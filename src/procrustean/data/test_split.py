"""A test set for sources that come without one."""

from __future__ import annotations

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.duplicates import MOST_COMPARED, Groups, example_pair, fingerprints, rule_text, too_dark
from procrustean.data.imageset import ImageSet, Indices, Labels
from procrustean.data.take_away import groups_of, part

SEED = 0


def shares_for_test(counts: Labels) -> Labels:
    """How many images each class gives to the test set.

    >>> shares_for_test(np.array([10, 3, 1])).tolist()
    [2, 1, 0]
    """
    return np.where(counts >= 2, np.maximum(counts // 5, 1), 0)


def set_aside_test(images: ImageSet, name: str) -> tuple[ImageSet, ImageSet, Indices, str]:
    """Train set, test set, the positions of the latter, ascending, and a note.

    Every fifth image of each class, drawn with a fixed seed, becomes test. A class with 2 to 4 images gives one; a
    class with a single image keeps it for training. Near-duplicates stay on one side.

    Args:
        images: all there are.
        name: where they are from.
    """
    counts = shares_for_test(images.counts)
    if not counts.any():
        raise DataError(
            f"{name}: there is no test set, and no class has the 2 images needed to set one aside; add images"
        )
    groups = groups_of(images)
    test = np.sort(part(images.labels, groups, counts, SEED))
    if not len(test):
        raise DataError(
            f"{name}: there is no test set, and none can be set aside: the images of each class are near-duplicates of "
            f"one another{_example(images, groups)}. Add images that differ, or give a test set. If these are "
            "different images in truth, part them yourself, into folders train and test (a column split in a table, "
            "test_images and test_labels in a .npz file)"
        )
    train = np.setdiff1d(np.arange(len(images)), test)
    note = f"no test images given: 20 % per class set aside as test, seed {SEED}"
    twins = np.flatnonzero(np.bincount(groups)[groups] > 1)
    if len(twins):
        kind = "equals" if len(images) > MOST_COMPARED else "near-duplicates"
        dark = too_dark(fingerprints(images.subset(twins).images))
        note += f"; {len(twins)} images have {kind}, kept together" + f" ({dark})" * bool(dark)
    untested = np.bincount(images.labels[test], minlength=len(images.classes)) == 0
    for alone, why in ((images.counts == 1, "with a single image"), (images.counts > 1, "whose images are alike")):
        names = [c for c, left in zip(images.classes, untested & alone, strict=True) if left]
        if names:
            shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
            one, many = f"1 class {why} stays in train and is", f"{len(names)} classes {why} stay in train and are"
            note += f"; {one if len(names) == 1 else many} not tested: {shown}"
    return images.subset(train), images.subset(test), test, note


def _example(images: ImageSet, groups: Groups) -> str:
    """The rule by which images are near-duplicates, and two that are."""
    rule, found = rule_text(len(images)), fingerprints(images.images)
    first, second = (images.names[i] if images.names else f"image {i}" for i in example_pair(found, groups))
    dark = too_dark(found)
    return f" ({rule}), for example {first} and {second}" + f"; {dark}" * bool(dark)
