"""A test set for sources that come without one."""

from __future__ import annotations

import numpy as np

from procrustean.data.imageset import ImageSet
from procrustean.data.imbalance import select
from procrustean.errors import DataError

SEED = 0


def set_aside_test(images: ImageSet, name: str) -> tuple[ImageSet, ImageSet, str]:
    """Train set, test set and a note: every fifth image of each class, drawn with a fixed seed, becomes test.

    A class with 2 to 4 images gives one; a class with a single image keeps it for training.
    """
    counts = np.where(images.counts >= 2, np.maximum(images.counts // 5, 1), 0)
    if not counts.any():
        raise DataError(
            f"{name}: there is no test set, and no class has the 2 images needed to set one aside; add images"
        )
    test = np.sort(select(images.labels, counts, SEED))
    train = np.setdiff1d(np.arange(len(images)), test)
    note = f"no test images given: 20 % per class set aside as test, seed {SEED}"
    single = [c for c, count in zip(images.classes, images.counts, strict=True) if count == 1]
    if single:
        shown = ", ".join(single[:5]) + (" ..." if len(single) > 5 else "")
        note += f"; {len(single)} with a single image stay in train and are not tested: {shown}"
    return images.subset(train), images.subset(test), note
