"""The 1797 hand-written digits bundled with scikit-learn: 8x8, grey, ten classes, no download."""

from __future__ import annotations

from functools import cache

import numpy as np

from procrustean.data.imageset import ImageSet, Splits
from procrustean.data.imbalance import select

TRAIN_PER_CLASS = 100


def load_digits() -> Splits:
    """100 images of each digit for training, the other 797 (74 to 83 per digit) for testing."""
    everything = _bundled()
    train = select(everything.labels, [TRAIN_PER_CLASS] * 10)
    test = np.setdiff1d(np.arange(len(everything)), train)
    return Splits("digits", everything.subset(train), everything.subset(test))


@cache
def _bundled() -> ImageSet:
    """All of them, which only subsets of are handed out: reading their text takes longer than a short training."""
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    return ImageSet(images, digits.target.astype(np.int64), tuple(str(d) for d in range(10)))
