"""A data set decoded once: all images in one memory-mapped file of bytes, with labels, splits and hashes beside it.

images.npy   uint8 [N, size, size, 3], the splits one after the other
labels.npy   int64 [N], -1 for an image that was left out
splits.npy   uint8 [N], number of the split
store.json   what it is, the hash of each part of images.npy, what was left out; written last
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError
from procrustean.data.imageset import ImageSet, StoredImages

FORMAT = 1
MANIFEST = "store.json"
#: Threads that read a store to verify it.
READERS = 4
Labels = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Store:
    """A store that has been opened; its images are read when they are asked for."""

    path: Path
    manifest: dict[str, Any]
    images: npt.NDArray[np.uint8]  # a memory map
    labels: Labels
    splits: npt.NDArray[np.uint8]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.manifest["classes"])

    @property
    def digest(self) -> str:
        """sha256 (hex) that identifies all its images."""
        return str(self.manifest["digest"])

    def rows(self, split: str) -> npt.NDArray[np.int64]:
        """Places of the images of a split."""
        names = self.manifest["splits"]
        if split not in names:
            raise DataError(f"{self.path}: holds no split {split!r}, only {', '.join(map(repr, names)) or 'none'}")
        number = list(names).index(split)
        return np.flatnonzero((self.splits == number) & (self.labels >= 0))

    def image_set(self, rows: npt.NDArray[np.int64], labels: Labels, classes: tuple[str, ...]) -> ImageSet:
        """Images of these rows with labels of one's own."""
        return ImageSet(StoredImages(self.images, self.digest, rows), labels, classes)

    def split(self, name: str) -> ImageSet:
        """The images of a split."""
        rows = self.rows(name)
        return self.image_set(rows, self.labels[rows], self.classes)


def store_path(root: Path, name: str, size: int) -> Path:
    """Where the store of a data set is, below a folder of data sets."""
    return root / "stores" / f"{name}-{size}"


def open_store(path: Path) -> Store:
    """Open a store; the sizes of its files are checked, their content is not (see `verify`)."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError(f"format {manifest['format']}, this version reads {FORMAT}")
        images = np.load(path / "images.npy", mmap_mode="r", allow_pickle=False)
        labels = np.load(path / "labels.npy", allow_pickle=False)
        splits = np.load(path / "splits.npy", allow_pickle=False)
        _check(manifest, images, labels, splits)
        if content_digest(manifest["chunks"], labels, splits) != manifest["digest"]:
            raise ValueError("labels or splits are not those it was written with")
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(
            f"{path}: damaged ({error}); remove the folder and prepare it again: procrustean data prepare"
        ) from error
    return Store(path, manifest, images, labels, splits)


def _check(manifest: dict[str, Any], images: Array, labels: Array, splits: Array) -> None:
    """ValueError for a store whose files do not hold what stores hold."""
    number, classes = len(images), manifest["classes"]
    if list(images.shape) != manifest["shape"] or images.dtype != np.uint8 or images.ndim != 4:
        raise ValueError(f"images {images.dtype} {images.shape}, {manifest['shape']} expected")
    if labels.shape != (number,) or splits.shape != (number,) or not -1 <= labels.min() <= labels.max() < len(classes):
        raise ValueError(f"labels or splits that are not {number}, or outside 0 to {len(classes) - 1}")
    if len(manifest["chunks"]) != -(-number // manifest["chunk_images"]):
        raise ValueError(f"{len(manifest['chunks'])} hashes for {number} images")


def content_digest(chunks: list[str], labels: Labels, splits: npt.NDArray[np.uint8]) -> str:
    """sha256 (hex) over the hashes of all parts, the labels and the splits."""
    digest = hashlib.sha256("\n".join(chunks).encode("ascii"))
    digest.update(np.ascontiguousarray(labels, "<i8").data)
    digest.update(np.ascontiguousarray(splits).data)
    return digest.hexdigest()


def verify(path: Path) -> int:
    """Read the whole store and compare it with its hashes; returns the number of its images.

    Raises:
        DataError: naming the images that have changed.
    """
    store = open_store(path)
    step = int(store.manifest["chunk_images"])
    starts = range(0, len(store.images), step)

    def changed(start: int) -> bool:
        block = np.ascontiguousarray(store.images[start : start + step])
        return bool(hashlib.sha256(block.data).hexdigest() != store.manifest["chunks"][start // step])

    with ThreadPoolExecutor(READERS) as pool:
        bad = [start for start, different in zip(starts, pool.map(changed, starts), strict=True) if different]
    if bad:
        raise DataError(
            f"{path}: the images from {bad[0]} to {min(bad[0] + step, len(store.images)) - 1} are not those it was "
            f"written with ({len(bad)} of {len(starts)} parts differ); remove the folder and prepare it again"
        )
    return len(store.images)
