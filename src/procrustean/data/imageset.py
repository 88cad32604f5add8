"""Labelled images, in memory or in a file, checked once, and the splits a source gives."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, DataError, did_you_mean
from procrustean.base.stop_signals import heed_stop
from procrustean.data.sets.data_set import data_roots

if TYPE_CHECKING:
    from procrustean.data.image_groups import LikelyGroups

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]


#: Pixels that take more than this are not kept in memory.
IN_MEMORY = 32 << 20
#: Images are looked at one after the other in blocks of about this size.
BLOCK_BYTES = 16 << 20


class StoredImages:
    """Some of the images of a file, in some order, used as an array [N, H, W, channels] is. Indexing reads them.

    Args:
        array: all images of the file, as a memory map.
        digest: sha256 (hex) of the file's content, where it is known; with the rows it identifies the selection.
        rows: which images, in which order; None for all of them.
    """

    def __init__(self, array: Images, digest: str | None = None, rows: Indices | None = None) -> None:
        self._array, self._digest = array, digest
        self.rows = np.arange(len(array), dtype=np.int64) if rows is None else rows
        self.shape: tuple[int, ...] = (len(self.rows), *array.shape[1:])
        self.ndim, self.dtype = array.ndim, array.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | slice | Indices) -> Images:
        return np.asarray(self._array[self.rows[key]])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Images:
        return np.asarray(self[:], dtype=dtype)

    @cached_property
    def digest(self) -> str | None:
        """sha256 (hex) of the file's content and the rows."""
        if self._digest is None:
            return None
        rows = np.ascontiguousarray(self.rows, dtype="<i8")
        return hashlib.sha256(self._digest.encode("ascii") + rows.data).hexdigest()

    def take(self, indices: Indices) -> StoredImages:
        """A selection of the selection; nothing is read."""
        return self.with_rows(self.rows[indices])

    def with_rows(self, rows: Indices) -> StoredImages:
        """Other images of the same file."""
        return StoredImages(self._array, self._digest, rows)

    def read(self, indices: Indices, out: Images) -> None:
        """Read images into an array of their shape."""
        # "clip" because numpy buffers the output under its default, "raise"; fancy indexing has checked nothing yet.
        np.take(self._array, self.rows[indices], axis=0, out=out, mode="clip")


def read_images(images: Images | StoredImages, indices: Indices, out: Images) -> None:
    """Copy the images at `indices`, which must be valid, into `out`, without holding the interpreter's lock."""
    if isinstance(images, StoredImages):
        images.read(indices, out)
    else:
        np.take(images, indices, axis=0, out=out, mode="clip")


def blocks(images: Images | StoredImages) -> Iterator[Images]:
    """All images in order, a few megabytes of them at a time; ends where the program is asked to stop."""
    step = max(1, BLOCK_BYTES // math.prod(images.shape[1:]))
    for start in range(0, len(images), step):
        heed_stop()
        yield np.ascontiguousarray(images[slice(start, start + step)])


def together(parts: Sequence[Images | StoredImages]) -> Images | StoredImages:
    """The images of all parts; those of a file, which has to be one, stay in it."""
    first = parts[0]
    if isinstance(first, StoredImages):
        return first.with_rows(np.concatenate([part.rows for part in parts if isinstance(part, StoredImages)]))
    return np.concatenate([np.asarray(part) for part in parts])


def room_for(shape: tuple[int, int, int, int]) -> Images:
    """Zeros for so many pixels: in memory, or where they are many in a temporary file, as a memory map.

    The file has no name, so that nothing is left of it, however the program ends. It is where data sets are, since in
    the folder of temporary files it may be in memory after all.
    """
    size = math.prod(shape)
    if size <= IN_MEMORY:
        return np.zeros(shape, np.uint8)
    folders = data_roots()[0], Path(tempfile.gettempdir())
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free < size:
                continue
            with tempfile.TemporaryFile(dir=folder) as file:
                if hasattr(os, "posix_fallocate"):  # else a disk that fills up meanwhile would end the program
                    os.posix_fallocate(file.fileno(), 0, size)
                return np.memmap(file, np.uint8, "w+", shape=shape)
    count, height, width, _ = shape
    raise DataError(
        f"{count:,} images of {width} x {height} pixels take {size / 1e9:.3g} GB on disk, and there is no room for "
        f"that in {' or '.join(map(str, folders))}; choose a smaller --image-size, or set PROCRUSTEAN_DATA"
    )


def positions_by_class(labels: Indices, classes: int) -> list[Indices]:
    """Positions of the images of each class, ascending; negative labels belong to none.

    >>> [positions.tolist() for positions in positions_by_class(np.array([1, 0, -1, 1]), 3)]
    [[1], [0, 3], []]
    """
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(classes + 1))
    return [order[start:stop] for start, stop in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one size. Compare two sets by their `hash`.

    >>> two = ImageSet(np.zeros((2, 4, 4, 1), np.uint8), np.array([0, 1]), ("cat", "dog"))
    >>> two.counts.tolist()
    [1, 1]
    """

    images: Images | StoredImages  # uint8 [N, H, W, channels], channels 1 or 3
    labels: Labels  # int64 [N], positions in `classes`
    classes: tuple[str, ...]
    names: tuple[str, ...] = ()  # of the files that the images were, [N]; empty if they were none
    groups: tuple[str, ...] = ()  # of images that belong together, [N]; empty if none are known

    def __post_init__(self) -> None:
        _check_images(self.images)
        _check_classes(self.classes)
        _check_labels(self.labels, len(self.images), self.classes)
        for what, given in (("names", self.names), ("groups", self.groups)):
            if given and len(given) != len(self.images):
                raise DataError(f"{len(given)} {what} received for {len(self.images)} images; give each of them one")

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def counts(self) -> Labels:
        """Images per class, int64 [C]."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    @cached_property
    def hash(self) -> str:
        """sha256 (hex) of shape, class names, pixels and labels, in this order of images.

        Where a file of images was written with a hash, that counts in place of their pixels.
        """
        head = json.dumps([list(self.images.shape), list(self.classes)], separators=(",", ":"))
        digest = hashlib.sha256(head.encode("ascii"))
        if isinstance(self.images, StoredImages) and self.images.digest is not None:
            digest.update(self.images.digest.encode("ascii"))
        else:
            for block in blocks(self.images):
                digest.update(block.data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        return digest.hexdigest()

    def subset(self, indices: npt.ArrayLike) -> ImageSet:
        """The images at `indices`, in that order, with the same classes."""
        chosen = np.asarray(indices, dtype=np.int64)
        images = self.images.take(chosen) if isinstance(self.images, StoredImages) else self.images[chosen]
        names, groups = (tuple(given[i] for i in chosen) if given else () for given in (self.names, self.groups))
        return ImageSet(images, self.labels[chosen], self.classes, names, groups)

    def only(self, classes: Sequence[str]) -> ImageSet:
        """The images of some classes, which become classes 0, 1, ... in the order given."""
        for name in classes:
            if name not in self.classes:
                raise ConfigError(f"there is no class {name!r}. {did_you_mean(name, self.classes)}")
        if len(set(classes)) < len(classes):
            raise ConfigError(f"classes {some_names(classes)} received; name each of them once")
        new = np.full(len(self.classes), -1)
        new[[self.classes.index(name) for name in classes]] = np.arange(len(classes))
        labels = new[self.labels]
        kept = np.flatnonzero(labels >= 0)
        if not len(kept):
            raise DataError(f"there is no image of {some_names(classes)}; choose other classes, or add images of these")
        return replace(self.subset(kept), labels=labels[kept].astype(np.int64), classes=tuple(classes))

    def relabelled(self, order: Sequence[int] | Indices) -> ImageSet:
        """The same images with the classes in another order: new class i is the present class `order[i]`."""
        old = np.asarray(order, dtype=np.int64)
        if not np.array_equal(np.sort(old), np.arange(len(self.classes))):
            raise ConfigError(f"order must name each of the {len(self.classes)} classes once, got {old.tolist()[:20]}")
        new_of_old = np.argsort(old)
        return replace(self, labels=new_of_old[self.labels], classes=tuple(self.classes[i] for i in old))


#: Begins the note of splits that have no test images of their own: what is measured on the others is no test.
NO_TEST = "no test images were given"


@dataclass(frozen=True, eq=False)
class Splits:
    """What a source gives: training, test and perhaps validation images with the same classes and size."""

    name: str
    train: ImageSet
    test: ImageSet
    val: ImageSet | None = None
    note: str = ""
    aside: Indices | None = None  # positions of `test` among the source's training images, where it has no test images
    likely: LikelyGroups | None = None  # images that probably belong together, where nothing is known of that

    def __post_init__(self) -> None:
        for split, images in (("test", self.test), ("val", self.val)):
            if images is None:
                continue
            if images.classes != self.train.classes:
                raise DataError(
                    f"{self.name}: the {split} split has other classes ({some_names(images.classes)}) than the "
                    f"train split ({some_names(self.train.classes)}); give every split the same class names"
                )
            if images.images.shape[1:] != self.train.images.shape[1:]:
                raise DataError(
                    f"{self.name}: images of the {split} split are {images.images.shape[1:]}, of the train "
                    f"split {self.train.images.shape[1:]} (height, width, channels); bring them to one shape"
                )

    def only(self, classes: Sequence[str]) -> Splits:
        """The same splits with some of the classes alone."""

        def part(split: str, images: ImageSet) -> ImageSet:
            try:
                return images.only(classes)
            except DataError as error:
                raise DataError(f"{self.name}, {split} split: {error}") from error

        val = None if self.val is None else part("val", self.val)
        return Splits(self.name, part("train", self.train), part("test", self.test), val, self.note, likely=self.likely)

    @property
    def has_test(self) -> bool:
        """Whether the test images are no others in their place."""
        return not self.note.startswith(NO_TEST)

    @property
    def images_by_class(self) -> dict[str, int]:
        """Images of each class in all splits together, counted once where splits share them."""
        own = [self.train, self.val, self.test if self.has_test else None]
        different = {part.hash: part for part in own if part is not None}
        counts = np.sum([part.counts for part in different.values()], axis=0)
        return {name: int(count) for name, count in zip(self.train.classes, counts, strict=True)}

    @cached_property
    def hash(self) -> str:
        """sha256 (hex) over the hashes of the splits."""
        parts = [self.train.hash, self.test.hash, self.val.hash if self.val else ""]
        return hashlib.sha256("\n".join(parts).encode("ascii")).hexdigest()


def _check_images(images: object) -> None:
    if not isinstance(images, np.ndarray | StoredImages) or images.dtype != np.uint8:
        kind = images.dtype if isinstance(images, np.ndarray | StoredImages) else type(images).__name__
        raise DataError(f"images must be a numpy array of uint8 (0..255), got {kind}; convert them first")
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:3]:
        raise DataError(f"images must have the shape [N, height, width, 1 or 3 channels], got {images.shape}")
    if len(images) == 0:
        raise DataError("an image set needs at least one image, got none")


def _check_classes(classes: object) -> None:
    if not isinstance(classes, tuple) or not all(isinstance(c, str) and c for c in classes):
        raise DataError(f"classes must be a tuple of non-empty names, got {classes!r:.200}")
    if len(set(classes)) != len(classes):
        twice = sorted({c for c in classes if classes.count(c) > 1})
        raise DataError(f"class names must differ, got more than once: {some_names(twice)}")


def _check_labels(labels: object, images: int, classes: tuple[str, ...]) -> None:
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64:
        kind = labels.dtype if isinstance(labels, np.ndarray) else type(labels).__name__
        raise DataError(f"labels must be a numpy array of int64, got {kind}; use labels.astype(np.int64)")
    if labels.shape != (images,):
        raise DataError(f"labels must have the shape [{images}], one per image, got {list(labels.shape)}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise DataError(f"labels must lie in 0..{len(classes) - 1} ({len(classes)} class names), got {low}..{high}")


def some_names(names: Sequence[str], most: int = 10) -> str:
    """The first names, and how many there are in all.

    >>> some_names(["cat", "dog", "fox"], most=2)
    'cat, dog ... (3 in all)'
    """
    return ", ".join(names[:most]) + (f" ... ({len(names):,} in all)" if len(names) > most else "")
