"""The small balanced set beside the training set."""

from __future__ import annotations

import numpy as np
import pytest

from procrustean.base import ConfigError
from procrustean.data import ImageSet, Imbalanced, Splits, build
from procrustean.data.imbalance import meta_set


def numbered(counts: tuple[int, ...]) -> ImageSet:
    """Images that are all different: their pixels spell their number."""
    labels = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(len(labels))
    images = np.stack([numbers // 256, numbers % 256, numbers * 0, numbers * 0], 1).reshape(-1, 2, 2, 1)
    return ImageSet(images.astype(np.uint8), labels, tuple(map(str, range(len(counts)))))


def numbers(images: ImageSet) -> list[int]:
    return [int(p[0, 0, 0]) * 256 + int(p[0, 1, 0]) for p in images.images]


def imbalanced(counts: tuple[int, ...], rho: float) -> Imbalanced:
    return build(Splits("numbers", numbered(counts), numbered((3,) * len(counts))), imbalance="step", rho=rho)


def test_spare_images_where_every_class_has_enough() -> None:
    data = imbalanced((40, 40, 30, 30), 3)  # 30, 30, 10, 10 of them are trained on
    assert data.spare is not None
    assert data.spare.counts.tolist() == [10, 10, 20, 20]
    found = meta_set(data, 10, seed=0)
    assert found.images.counts.tolist() == [10] * 4
    assert set(numbers(found.images)) <= set(numbers(data.spare))
    assert len(set(numbers(found.images))) == 40
    assert (len(found.images), found.per_class, found.spare) == (40, 10, 40)


def test_each_class_by_itself() -> None:
    data = imbalanced((30, 30, 30, 30), 5)  # the large classes have no spare images, the small ones 24
    found = meta_set(data, 10, seed=0)
    assert (len(found.images), found.per_class, found.spare) == (40, 10, 20)
    assert data.spare is not None
    large = [n for n, y in zip(numbers(found.images), found.images.labels, strict=True) if y < 2]
    small = [n for n, y in zip(numbers(found.images), found.images.labels, strict=True) if y >= 2]
    assert set(large) <= set(numbers(data.train))
    assert set(small) <= set(numbers(data.spare))


def test_training_images_where_there_are_no_others_and_all_of_a_small_class() -> None:
    splits = Splits("numbers", numbered((30, 30, 6, 6)), numbered((3,) * 4))
    data = build(splits, imbalance="natural")
    found = meta_set(data, 10, seed=0)
    assert (len(found.images), found.per_class, found.spare) == (40, 10, 0)
    for label, count in enumerate(data.counts):
        chosen = [n for n, y in zip(numbers(found.images), found.images.labels, strict=True) if y == label]
        own = [n for n, y in zip(numbers(data.train), data.train.labels, strict=True) if y == label]
        assert len(chosen) == 10
        assert set(chosen) <= set(own)
        assert len(set(chosen)) == min(10, count)


def test_the_seed_chooses() -> None:
    data = imbalanced((60, 60, 60), 2)
    assert numbers(meta_set(data, 5, seed=1).images) == numbers(meta_set(data, 5, seed=1).images)
    assert numbers(meta_set(data, 5, seed=1).images) != numbers(meta_set(data, 5, seed=2).images)


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="meta_per_class = 0 received"):
        meta_set(imbalanced((10, 10), 2), 0, seed=0)
