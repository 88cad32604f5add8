"""Images that stay in a file: a memory map of which any selection of rows can be read, and none is until then."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]


class StoredImages:
    """Some of the images of a file, in some order, used as an array [N, H, W, channels] is. Indexing reads them.

    Args:
        array: all images of the file, as a memory map.
        digest: sha256 (hex) of the file's content; with the rows it identifies the selection.
        rows: which images, in which order; None for all of them.
    """

    def __init__(self, array: Images, digest: str, rows: Indices | None = None) -> None:
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
    def digest(self) -> str:
        """sha256 (hex) of the file's content and the rows."""
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
