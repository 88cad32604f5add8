"""A small balanced set beside the training set, for methods that learn how to train from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import ConfigError
from ..rng import Stream
from .imageset import ImageSet
from .imbalance import Imbalanced


@dataclass(frozen=True)
class MetaSet:
    """As many images of every class, and where they are from."""

    images: ImageSet
    per_class: int
    source: Literal["spare", "train"]  # images that are not trained on, or the training images themselves

    def to_json(self) -> dict[str, Any]:
        return {"images": len(self.images), "per_class": self.per_class, "from": self.source}


def meta_set(data: Imbalanced, per_class: int, seed: int) -> MetaSet:
    """Choose `per_class` images of each class: from the spare images if all classes have enough, else from training.

    A class with fewer training images gives all of them, some more than once.
    """
    if per_class < 1:
        raise ConfigError(f"meta_per_class = {per_class!r} received; a balanced set needs at least 1 image per class")
    enough = data.spare is not None and int(data.spare.counts.min()) >= per_class
    among = data.spare if data.spare is not None and enough else data.train
    stream = Stream(seed, "meta")
    chosen = []
    for label in range(len(among.classes)):
        positions = np.flatnonzero(among.labels == label)
        chosen.append(np.resize(positions[stream.permutation(len(positions))], per_class))
    return MetaSet(among.subset(np.concatenate(chosen)), per_class, "spare" if enough else "train")
