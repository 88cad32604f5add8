"""From a list of image files with labels and splits to image sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from procrustean.data.image_files import Header, ImageFile, Problems, common_size, decoded, headers, refuse
from procrustean.data.imageset import Images, ImageSet, Splits
from procrustean.data.set_aside import set_aside_test
from procrustean.errors import DataError, did_you_mean

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def split_name(given: str, where: str) -> str:
    """train, val or test, from one of their usual names."""
    known = {**SPLIT_NAMES, "training": "train", "testing": "test", "dev": "val"}
    if given.lower() not in known:
        raise DataError(f"{where}: unknown split {given!r}. {did_you_mean(given, known)}")
    return known[given.lower()]


@dataclass(frozen=True)
class FileListing:
    """Images of a source that are not decoded yet: their files, what their headers say, and what is wrong so far."""

    name: str  # of the data set
    where: str  # the source in messages
    files: Sequence[ImageFile]
    bad: Problems

    @cached_property
    def headers(self) -> dict[str, Header]:
        """By the name of the file; files without one go to `bad`."""
        return headers(self.files, self.bad)

    def load(self, image_size: int | None = None) -> Splits:
        """Decode the images; without test images a fifth of each class is set aside.

        All images get one square size: `image_size`, else the one they share, else 64. A file that is not a complete
        image is an error that names it.
        """
        size, notes = common_size(list(self.headers.values()), image_size)
        bad = dict(self.bad)
        readable = [file for file in self.files if file.name in self.headers]
        pixels = decoded(readable, (size, size, 3), bad)
        refuse(bad, self.where)
        classes = tuple(sorted({file.label for file in readable if file.split == "train"}))
        present = dict.fromkeys(file.split for file in readable)
        splits = {split: _image_set(readable, pixels, split, classes) for split in present}
        train, test = splits["train"], splits.get("test")
        if test is None:
            train, test, note = set_aside_test(train, self.where)
            notes.append(note)
        return Splits(self.name, train, test, splits.get("val"), "; ".join(notes))


def check_classes(files: Sequence[ImageFile], where: str, hint: str = "add some") -> None:
    """DataError for fewer than two classes, or classes that are tested but not trained on."""
    classes = {split: {file.label for file in files if file.split == split} for split in SPLIT_NAMES.values()}
    for split in ("test", "val"):
        extra = sorted(classes[split] - classes["train"])
        if extra and classes["train"]:
            raise DataError(
                f"{where}: class {extra[0]!r} is in the {split} split but not in the train split; "
                "add training images or remove it"
            )
    if len(classes["train"]) < 2:
        raise DataError(
            f"{where}: at least two classes with training images are needed, found {len(classes['train'])}; {hint}"
        )


def _image_set(files: Sequence[ImageFile], pixels: Images, split: str, classes: tuple[str, ...]) -> ImageSet:
    rows = [row for row, file in enumerate(files) if file.split == split]
    labels = {name: label for label, name in enumerate(classes)}
    return ImageSet(pixels[rows], np.array([labels[files[row].label] for row in rows], np.int64), classes)
