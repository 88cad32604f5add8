"""The 1797 hand-written digits bundled with scikit-learn: 8x8, grey, ten classes, no download."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from procrustean.data.imageset import ImageSet, Splits
from procrustean.data.imbalance import select
from procrustean.data.recipe import STANDARD
from procrustean.data.sets.data_set import DataSet, Request

TRAIN_PER_CLASS = 100


class Digits(DataSet):
    """100 images of each digit for training, the other 797 for testing."""

    how = "; bundled with scikit-learn, no download"

    def load(self, request: Request) -> Splits:
        everything = _bundled()
        train = select(everything.labels, [TRAIN_PER_CLASS] * 10)
        test = np.setdiff1d(np.arange(len(everything)), train)
        return Splits(self.name, everything.subset(train), everything.subset(test))

    def absent(self, data_dir: Path | None = None) -> str | None:
        return None


#: Small batches, since images are few; no flip: a mirrored digit is another sign.
DIGITS = Digits(
    name="digits",
    title="digits",
    about="1797 hand-written digits, 8x8 grey, 10 classes",
    recipe=STANDARD.named(
        "digits", net="small", epochs=60, batch_size=32, lr=0.05, weight_decay=5e-4, padding=1, flip=False
    ),
    counts={"train": (TRAIN_PER_CLASS,) * 10, "test": (78, 82, 77, 83, 81, 82, 81, 79, 74, 80)},
)


@cache
def _bundled() -> ImageSet:
    """All of them, which only subsets of are handed out: reading their text takes longer than a short training."""
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    return ImageSet(images, digits.target.astype(np.int64), tuple(str(d) for d in range(10)))
