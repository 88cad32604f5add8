"""The few-shot files of Tiered-ImageNet: the images of a group of classes in one file, their labels in another."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError
from procrustean.data import restricted_pickle
from procrustean.data.stores.listing import Part

Payload = list[str | bytes | npt.NDArray[np.uint8]]


def packed_part(source: Path, split: str) -> tuple[Part, list[str]]:
    """Images and labels (from 0) of one group, and the names of its classes."""
    labels_path = source / f"{split}_labels.pkl"
    loaded = restricted_pickle.load_file(labels_path)
    labels, names = _labels(loaded, labels_path, split)
    sources: ArraySources | EncodedSources
    if (source / f"{split}_images.npz").is_file():
        sources = ArraySources(source / f"{split}_images.npz")
    elif (source / f"{split}_images_png.pkl").is_file():
        sources = EncodedSources(source / f"{split}_images_png.pkl")
    else:
        raise DataError(f"{source}: neither {split}_images.npz nor {split}_images_png.pkl beside {labels_path.name}")
    if len(sources) != len(labels):
        raise DataError(
            f"{source}: {len(sources)} images but {len(labels)} labels of {split}; the files do not belong together"
        )
    return Part(sources, labels), names


def _labels(loaded: Any, path: Path, split: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Labels from 0 on and class names, from the dict of either publisher."""
    known = ("label_specific", "labels")
    key = next((key for key in known if isinstance(loaded, dict) and key in loaded), None)
    if key is None:
        raise DataError(f"{path}: no {' or '.join(known)} in it; these are not the labels of Tiered-ImageNet")
    values = np.asarray(loaded[key])
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) == 0:
        raise DataError(f"{path}: {key} must be a list of whole numbers, got {values.dtype} of shape {values.shape}")
    found, labels = np.unique(values, return_inverse=True)
    names = loaded.get("label_specific_str")
    if isinstance(names, list) and len(set(names)) == len(names) > int(found.max()) and int(found.min()) >= 0:
        return labels.astype(np.int64), [f"{split}: {names[int(value)]}" for value in found]
    return labels.astype(np.int64), [f"{split}: {int(value)}" for value in found]


class ArraySources:
    """Rows of the array `images` of an .npz file, read without loading all of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            archive = zipfile.ZipFile(path)
            member = archive.open("images.npy")
            version = np.lib.format.read_magic(member)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(member)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: no readable array `images` in it ({error}); get the file again") from error
        if len(shape) != 4 or shape[3] != 3 or dtype != np.uint8 or fortran:
            raise DataError(f"{path}: images must be uint8 [N, height, width, 3], got {dtype} {shape}")
        self._shape: tuple[int, ...] = shape
        self._member, self._begin = member, member.tell()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._shape[0]

    def name(self, row: int) -> str:
        return f"{self.path.name}, image {row}"

    def payload(self, start: int, stop: int) -> Payload:
        size = int(np.prod(self._shape[1:]))
        with self._lock:
            self._member.seek(self._begin + start * size)
            data = self._member.read((stop - start) * size)
        if len(data) < (stop - start) * size:
            raise DataError(f"{self.path}: ends before image {stop - 1}; get the file again")
        return list(np.frombuffer(data, np.uint8).reshape(-1, *self._shape[1:]))


class EncodedSources:
    """Images of a pickled list of encoded (PNG) images; all of it is in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        loaded = restricted_pickle.load_file(path)
        if not isinstance(loaded, list) or not all(isinstance(item, np.ndarray | bytes) for item in loaded):
            raise DataError(f"{path}: not a list of encoded images; these are not the files of Tiered-ImageNet")
        self._images: list[bytes | npt.NDArray[np.uint8]] = loaded

    def __len__(self) -> int:
        return len(self._images)

    def name(self, row: int) -> str:
        return f"{self.path.name}, image {row}"

    def payload(self, start: int, stop: int) -> Payload:
        return [bytes(item) for item in self._images[start:stop]]
