"""Images that stay in a file are read only when asked for, and in every other way as good as an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from procrustean.data import ImageSet, Splits, build
from procrustean.data.augment.settings import Augmentation
from procrustean.data.imageset import StoredImages, blocks, read_images
from procrustean.engine.images import ImageStore, channel_statistics

Pixels = np.ndarray


@pytest.fixture
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (20, 5, 6, 3), dtype=np.uint8)


@pytest.fixture
def stored(tmp_path: Path, pixels: Pixels) -> StoredImages:
    np.save(tmp_path / "images.npy", pixels)
    return StoredImages(np.load(tmp_path / "images.npy", mmap_mode="r"), "a" * 64)


def test_it_looks_like_an_array(stored: StoredImages, pixels: Pixels) -> None:
    assert (stored.shape, stored.ndim, stored.dtype, len(stored)) == (pixels.shape, 4, np.uint8, 20)
    for key in (3, slice(2, 9), np.array([7, 7, 0])):
        assert np.array_equal(stored[key], pixels[key])
    assert np.array_equal(np.asarray(stored), pixels)
    assert type(stored[:]) is np.ndarray or not stored[:].flags.writeable


def test_selections_of_selections(stored: StoredImages, pixels: Pixels) -> None:
    some = stored.take(np.array([4, 9, 1, 1]))
    assert np.array_equal(np.asarray(some), pixels[[4, 9, 1, 1]])
    assert np.array_equal(np.asarray(some.take(np.array([2, 0]))), pixels[[1, 4]])
    out = np.zeros((2, 5, 6, 3), np.uint8)
    read_images(some, np.array([1, 3]), out)
    assert np.array_equal(out, pixels[[9, 1]])
    read_images(pixels, np.array([19, 0]), out)
    assert np.array_equal(out, pixels[[19, 0]])


def test_the_digest_is_of_file_and_rows(stored: StoredImages) -> None:
    digests = {
        stored.digest,
        stored.take(np.arange(19)).digest,
        stored.take(np.arange(20)[::-1]).digest,
        StoredImages(stored._array, "b" * 64).digest,
    }
    assert len(digests) == 4
    assert stored.take(np.arange(20)).digest == stored.digest


def test_a_set_of_them_is_built_and_normalised_as_arrays_are(stored: StoredImages, pixels: Pixels) -> None:
    labels, classes = np.repeat(np.arange(2), 10), ("a", "b")
    from_file, in_memory = (ImageSet(images, labels, classes) for images in (stored, pixels))
    data = [build(Splits("x", s, s), imbalance="step", rho=5, hold_out=1) for s in (from_file, in_memory)]
    for one, other in zip(
        (data[0].train, data[0].held_out, data[0].spare), (data[1].train, data[1].held_out, data[1].spare), strict=True
    ):
        assert one is not None
        assert other is not None
        assert isinstance(one.images, StoredImages)
        assert np.array_equal(np.asarray(one.images), other.images)
        assert np.array_equal(one.labels, other.labels)
    assert from_file.hash != in_memory.hash
    assert from_file.hash == ImageSet(stored.take(np.arange(20)), labels, classes).hash
    assert from_file.hash != from_file.subset(np.arange(20)[::-1]).hash
    assert channel_statistics(from_file) == channel_statistics(in_memory)


def test_blocks_cover_all_rows_and_stores_are_equal(
    stored: StoredImages, pixels: Pixels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("procrustean.data.imageset.BLOCK_BYTES", 7 * 90)
    assert [len(block) for block in blocks(stored)] == [7, 7, 6]
    assert np.array_equal(np.concatenate(list(blocks(stored))), pixels)
    labels = np.repeat(np.arange(2), 10)
    unknown = StoredImages(stored._array)
    assert ImageSet(unknown, labels, ("a", "b")).hash == ImageSet(pixels, labels, ("a", "b")).hash
    for padding in (0, 2):
        spec = Augmentation((5, 6), (5, 6), (5, 6), padding=padding, window=True)
        stores = [
            ImageStore(
                ImageSet(images, labels, ("a", "b")),
                device=torch.device("cpu"),
                mean=(0.1, 0.2, 0.3),
                std=(1.0, 2.0, 3.0),
                augmentation=spec,
            )
            for images in (stored, pixels)
        ]
        assert torch.equal(stores[0].pixels, stores[1].pixels)
        assert torch.equal(stores[0].clean_at(slice(0, 20)), stores[1].clean_at(slice(0, 20)))
        assert stores[0].pixels.shape == (20, 5 + 2 * padding, 6 + 2 * padding, 3)


def test_other_types_are_still_refused() -> None:
    from procrustean.base import DataError

    with pytest.raises(DataError, match="got float32"):
        ImageSet(np.zeros((1, 2, 2, 3), np.float32), np.zeros(1, np.int64), ("a",))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="got list"):
        ImageSet([], np.zeros(1, np.int64), ("a",))  # type: ignore[arg-type]
