"""Step Tiered-ImageNet as the paper builds it: large classes from one group, five training images of each other class.

Ye, Zhan, Chao (2021), supplement: the 351 classes for training are major, with all their images; the 97 classes for
validation (to tune on) or the 160 for testing (to report) are minor, with 5 images each; every class has 3 validation
and 50 test images. Which images these are is not published: here a seed decides, the same for both sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError
from procrustean.data.by_class import positions_by_class
from procrustean.data.imageset import ImageSet
from procrustean.data.official.store import Store

MINOR_IMAGES, VAL_IMAGES, TEST_IMAGES = 5, 3, 50
Indices = npt.NDArray[np.int64]


class StepTiered(NamedTuple):
    """The images of the step-imbalanced set, and how they were drawn."""

    train: ImageSet
    val: ImageSet
    test: ImageSet
    note: str


def step_tiered(store: Store, minor_group: str, seed: int) -> StepTiered:
    """Draw the training, validation and test images.

    Args:
        store: of Tiered-ImageNet, whose splits are its groups of classes.
        minor_group: "test" for the set that results are reported on, "val" for the one to tune on.
        seed: which images of a class are for what.
    """
    parts: dict[str, list[Indices]] = {"test": [], "val": [], "train": []}
    labels: dict[str, list[Indices]] = {"test": [], "val": [], "train": []}
    classes: list[str] = []
    groups = {group: set(np.unique(store.labels[store.rows(group)]).tolist()) for group in ("train", minor_group)}
    by_class = positions_by_class(store.labels, len(store.classes))
    random = np.random.RandomState(seed)
    for label, name in enumerate(store.classes):
        # Every class draws, used or not: the major classes have the same images in both sets.
        rows = by_class[label].copy()
        random.shuffle(rows)
        if not any(label in members for members in groups.values()):
            continue
        minor = label not in groups["train"]
        needed = TEST_IMAGES + VAL_IMAGES + (MINOR_IMAGES if minor else 1)
        if len(rows) < needed:
            raise DataError(
                f"class {name} of Tiered-ImageNet has {len(rows)} images, {needed} are needed for training, "
                "validation and test; prepare the complete data set"
            )
        rest = rows[TEST_IMAGES + VAL_IMAGES :]
        drawn = {
            "test": rows[:TEST_IMAGES],
            "val": rows[TEST_IMAGES : TEST_IMAGES + VAL_IMAGES],
            "train": rest[:MINOR_IMAGES] if minor else rest,
        }
        for split, chosen in drawn.items():
            parts[split].append(np.sort(chosen))
            labels[split].append(np.full(len(chosen), len(classes)))
        classes.append(name)
    sets = {
        split: store.image_set(np.concatenate(parts[split]), np.concatenate(labels[split]), tuple(classes))
        for split in parts
    }
    major = len(groups["train"])
    note = (
        f"{major} major classes and {len(classes) - major} minor ones of {MINOR_IMAGES} training images; "
        f"{VAL_IMAGES} validation and {TEST_IMAGES} test images per class, drawn with data seed {seed}"
    )
    return StepTiered(sets["train"], sets["val"], sets["test"], note)
