"""Images from one .npz file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError, did_you_mean
from procrustean.base.machine import most_unpacked
from procrustean.data.imageset import ImageSet, Splits
from procrustean.data.set_aside import set_aside_test

Array = npt.NDArray[Any]


def read_arrays(path: Path, only: Collection[str] | None = None) -> dict[str, Array]:
    """The arrays of a file by name, all or only some; those that it does not have are not among them."""
    try:
        with path.open("rb") as file:
            opened = np.load(file, allow_pickle=False)
            if isinstance(opened, np.ndarray):
                raise DataError(f"{path}: holds a single array; save with np.savez(path, name=array, ...)")
            _refuse_bomb(opened.zip.infolist(), path)
            return {name: opened[name] for name in opened.files if only is None or name in only}
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except Exception as error:  # a damaged file can raise nearly anything
        # What numpy says of pickles advises to load them unsafely.
        said = "" if "pickle" in str(error) else f" ({error})"
        raise DataError(
            f"{path}: not a readable .npz of plain arrays{said}; write it with np.savez, "
            "numbers and strings only, no objects"
        ) from error


def _refuse_bomb(members: list[ZipInfo], path: Path) -> None:
    unpacked, size = sum(member.file_size for member in members), path.stat().st_size
    if unpacked > most_unpacked(size):
        raise DataError(f"{path}: {size:,} bytes that unpack to {unpacked:,}; refused, save it without compression")


SPLITS = ("train", "test", "val")
KNOWN = (*(f"{split}_{part}" for split in SPLITS for part in ("images", "labels")), "classes")


def load_npz(path: Path) -> Splits:
    """Splits from the arrays `train_images`, `train_labels` and, if given, `test_*`, `val_*` and `classes`.

    Images are uint8 [N, H, W] or [N, H, W, channels] with 1 or 3 channels, labels whole numbers from 0,
    classes strings (else the numbers serve as names). Without test images a fifth of each class is set aside.
    """
    arrays = read_arrays(path)
    _check_names(list(arrays), path)
    labels = {split: _labels(arrays, split, path) for split in SPLITS if f"{split}_images" in arrays}
    classes = _classes(arrays, labels, path)
    sets = {split: _image_set(arrays, split, given, classes, path) for split, given in labels.items()}
    train, test, aside, note = sets["train"], sets.get("test"), None, ""
    if test is None:
        train, test, aside, note = set_aside_test(train, str(path))
    return Splits(path.stem, train, test, sets.get("val"), note, aside)


def npz_counts(path: Path) -> tuple[dict[str, int], bool]:
    """Training images of each class, and whether there are test images; no image is read."""
    arrays = read_arrays(path, only=("train_labels", "test_labels", "classes"))
    labels = {"train": _labels(arrays, "train", path)}
    names = _classes(arrays, labels, path)
    present, counts = np.unique(labels["train"], return_counts=True)
    return {names[label]: int(count) for label, count in zip(present, counts, strict=True)}, "test_labels" in arrays


def _check_names(names: list[str], path: Path) -> None:
    for name in names:
        if name not in KNOWN:
            raise DataError(f"{path}: unknown array {name!r:.80}. {did_you_mean(name[:80], KNOWN)}")
    for split in SPLITS:
        pair = (f"{split}_images", f"{split}_labels")
        absent = [name for name in pair if name not in names]
        if len(absent) == 1 or (absent and split == "train"):
            raise DataError(f"{path}: no array {absent[0]!r}; it holds {', '.join(names) or 'nothing'}")


def _labels(arrays: dict[str, Array], split: str, path: Path) -> npt.NDArray[np.int64]:
    name = f"{split}_labels"
    labels = arrays[name]
    if labels.dtype.kind in "US":
        raise DataError(
            f"{path}: {name} holds strings ({', '.join(map(repr, np.unique(labels)[:3].tolist()))}, ...); give the "
            f"names once and numbers as labels: classes, labels = np.unique(names, return_inverse=True), then "
            f"np.savez(..., {name}=labels, classes=classes)"
        )
    if labels.size == 0:
        raise DataError(f"{path}: {name} is empty; give a label for each image, or leave the {split} split out")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise DataError(f"{path}: {name} must be a list of whole numbers, got {labels.dtype} of shape {labels.shape}")
    return labels.astype(np.int64)


def _classes(arrays: dict[str, Array], labels: dict[str, npt.NDArray[np.int64]], path: Path) -> tuple[str, ...]:
    if "classes" not in arrays:
        return tuple(str(i) for i in range(max(int(given.max()) for given in labels.values()) + 1))
    classes = arrays["classes"]
    if classes.dtype.kind != "U" or classes.ndim != 1:
        raise DataError(f"{path}: classes must be a list of strings, got {classes.dtype} of shape {classes.shape}")
    return tuple(str(name) for name in classes)


def _image_set(
    arrays: dict[str, Array], split: str, labels: npt.NDArray[np.int64], classes: tuple[str, ...], path: Path
) -> ImageSet:
    images = arrays[f"{split}_images"]
    try:
        return ImageSet(images[..., None] if images.ndim == 3 else images, labels, classes)
    except DataError as error:
        raise DataError(f"{path}, {split} split: {error}") from error
