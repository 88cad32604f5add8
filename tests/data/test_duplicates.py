from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from procrustean.data import duplicates
from procrustean.data.duplicates import fingerprints, near_duplicates
from procrustean.data.imageset import Images


def pictures(number: int, side: int = 32, seed: int = 0) -> Images:
    """Smooth random pictures, like photographs more than like noise."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(number):
        coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), np.uint8))
        made.append(np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC)))
    return np.stack(made)


def compressed(image: Images) -> Images:
    memory = io.BytesIO()
    Image.fromarray(image).save(memory, "JPEG", quality=85)
    return np.asarray(Image.open(memory))


def resized(image: Images) -> Images:
    there = Image.fromarray(image).resize((48, 48), Image.Resampling.BILINEAR)
    return np.asarray(there.resize((32, 32), Image.Resampling.BILINEAR))


def brighter(image: Images) -> Images:
    return np.asarray(np.minimum(image.astype(int) + 3, 255), np.uint8)


def groups(images: Images) -> list[int]:
    return near_duplicates(fingerprints(images)).tolist()


def test_fingerprints_are_means_over_eighths() -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 16, 24, 3), np.uint8)
    slow = [[image[0, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3].astype(float).mean() for c in range(8)] for r in range(8)]
    found = fingerprints(image)[0]
    assert np.allclose(found[:64], np.ravel(slow), atol=1e-3)
    less_grey = image[0].astype(float) - image[0].astype(float).mean(2, keepdims=True)
    halves = [less_grey[r : r + 8, c : c + 12] for r in (0, 8) for c in (0, 12)]
    colour = [half[..., channel].mean() for channel in (0, 2) for half in halves]
    assert np.allclose(found[64:], colour, atol=1e-3)
    assert fingerprints(image[:, :5, :3]).shape == (1, 72)  # smaller than eight pixels


def test_different_pictures_are_apart() -> None:
    assert len(set(groups(pictures(200)))) == 200


def test_copies_of_many_kinds_are_found() -> None:
    images = pictures(20)
    changed = [images[0], compressed(images[1]), resized(images[2]), brighter(images[3])]
    found = groups(np.concatenate([images, np.stack(changed)]))
    assert found[20:] == found[:4]
    assert len(set(found)) == 20


def test_a_chain_is_one_group() -> None:
    start = pictures(1)[0].astype(int) // 2
    frames = np.stack([start + 3 * step for step in range(5)]).astype(np.uint8)
    assert set(groups(frames)) == {0}
    assert np.abs(fingerprints(frames)[0] - fingerprints(frames)[4]).max() > 10


def test_the_same_shades_in_other_colours_are_apart() -> None:
    image = pictures(1) // 2
    redder = image + np.array([30, 0, -30])
    assert len(set(groups(np.concatenate([image, np.clip(redder, 0, 255).astype(np.uint8)])))) == 2


def test_a_pile_of_equal_images_takes_no_time() -> None:
    assert set(groups(np.zeros((20000, 8, 8, 1), np.uint8))) == {0}


def test_large_images_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    images, read = pictures(20), []

    class Watched(np.ndarray):  # type: ignore[type-arg]
        def __getitem__(self, key: object) -> object:
            if isinstance(key, slice):
                read.append(np.asarray(self)[key].nbytes)
            return super().__getitem__(key)  # type: ignore[index]

    together = fingerprints(images)
    monkeypatch.setattr(duplicates, "BYTES_AT_ONCE", 10_000)
    assert np.allclose(fingerprints(images.view(Watched)), together, atol=1e-3)
    assert max(read) <= 10_000
    monkeypatch.setattr(duplicates, "BYTES_AT_ONCE", 1)  # less than one image
    assert np.allclose(fingerprints(images), together, atol=1e-3)
