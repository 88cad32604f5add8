"""A small balanced set beside the training set, for methods that learn how to train from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from procrustean.base.errors import ConfigError
from procrustean.base.random_numbers import Stream
from procrustean.data.by_class import Indices, positions_by_class
from procrustean.data.imageset import Images, ImageSet
from procrustean.data.imbalance import Imbalanced
from procrustean.data.mapped_images import StoredImages


@dataclass(frozen=True)
class MetaSet:
    """As many images of every class, and where they are from."""

    images: ImageSet
    per_class: int
    spare: int  # how many of them are not trained on; the others are training images


def meta_set(data: Imbalanced, per_class: int, seed: int) -> MetaSet:
    """Choose `per_class` images of each class: spare ones where the class has enough, else training images.

    The authors set their meta images aside before they make a set imbalanced; its largest classes then have no spare
    ones here. A class with too few training images gives all of them, some more than once.
    """
    if per_class < 1:
        raise ConfigError(f"meta_per_class = {per_class!r} received; a balanced set needs at least 1 image per class")
    stream = Stream(seed, "meta")
    parts: list[tuple[ImageSet, Indices]] = []
    spare = 0
    of_train, of_spare = _positions(data.train), _positions(data.spare)
    for label, _ in enumerate(data.train.classes):
        enough = data.spare is not None and int(data.spare.counts[label]) >= per_class
        among = data.spare if data.spare is not None and enough else data.train
        positions = of_spare[label] if among is data.spare else of_train[label]
        chosen = np.resize(positions[stream.permutation(len(positions))], per_class)
        parts.append((among, chosen))
        spare += per_class * enough
    labels = np.concatenate([among.labels[chosen] for among, chosen in parts])
    return MetaSet(ImageSet(_together(parts), labels, data.train.classes), per_class, spare)


def _together(parts: list[tuple[ImageSet, Indices]]) -> Images | StoredImages:
    """The images of all parts; those of a file stay in it."""
    first = parts[0][0].images
    if isinstance(first, StoredImages):
        rows = [among.images.rows[chosen] for among, chosen in parts if isinstance(among.images, StoredImages)]
        return first.with_rows(np.concatenate(rows))
    return np.concatenate([among.images[chosen] for among, chosen in parts])


def _positions(images: ImageSet | None) -> list[Indices]:
    return [] if images is None else positions_by_class(images.labels, len(images.classes))
