"""From a list of image files with labels and splits to image sets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Literal

import numpy as np

from procrustean.base.console import command_text
from procrustean.base.errors import DataError, did_you_mean, suggestion
from procrustean.data.image_files import (
    EMPTY_FILE,
    NOT_AN_IMAGE,
    SUFFIXES,
    Header,
    ImageFile,
    Notes,
    Problems,
    Progress,
    common_size,
    decode_into,
    headers,
    untold,
)
from procrustean.data.image_groups import LikelyGroups, likely_groups
from procrustean.data.imageset import Images, ImageSet, Splits, StoredImages, room_for
from procrustean.data.set_aside import set_aside_test

#: How many are named by training, which refuses them, and by `procrustean inspect`, which is there to find them.
NAMED, NAMED_BY_INSPECT = 5, 200
OUTSIDE = "not inside a class folder"
#: What is wrong with a folder; everything else is wrong with files.
EMPTY_CLASS = "class folder without images"
NESTED = "a folder inside a class folder; --group parent takes such folders for groups"
#: How tables call images that they hold themselves.
_ROW = re.compile(r"(\S+ )?row \d+")

SKIPPING = (
    "Or leave all of these out with --on-bad-image skip (in YAML on_bad_image: skip); the classes are then counted "
    "again"
)
MOVE_THEM = "no images by their names either; move them elsewhere"


def parted(bad: Problems) -> tuple[Problems, Problems]:
    """What should be an image and cannot be used, and what is no image by its name either, such as notes.

    >>> parted({"cat/1.png": "not an image", "README.md": "not inside a class folder"})
    ({'cat/1.png': 'not an image'}, {'README.md': 'not inside a class folder'})
    """
    other = {name: why for name, why in bad.items() if _is_no_image(name, why)}
    return {name: why for name, why in bad.items() if name not in other}, other


def counted(bad: Problems) -> str:
    """How many files and folders there are among them, in words.

    >>> counted({"cat/1.png": "not an image", "cat/2.png": "empty file", "dog": EMPTY_CLASS})
    '2 files and 1 folder'
    """
    folders = sum(why in (EMPTY_CLASS, NESTED) for why in bad.values())
    numbers = {"file": len(bad) - folders, "folder": folders}
    return " and ".join(f"{number} {what}{'s' * (number > 1)}" for what, number in numbers.items() if number)


def named(bad: Problems, most: int, whole: str = "") -> list[str]:
    """A line for each of the first ones and, if there are more, one that counts them.

    Args:
        bad: what cannot be used.
        most: how many are named.
        whole: what names all of them.
    """
    lines = [f"  {name}: {problem}" for name, problem in sorted(bad.items(), key=_by_numbers)[:most]]
    return [*lines, *[f"  and {len(bad) - most} more" + f"; {whole}" * bool(whole)] * (len(bad) > most)]


def refuse(bad: Problems, where: str, otherwise: str | None = None, most: int = NAMED) -> None:
    """DataError that names what cannot be used, if anything, and what can be done about it.

    Args:
        bad: what cannot be used.
        where: the source in messages.
        otherwise: what else can be done, where these are not files of a source that can be left out.
        most: how many are named.
    """
    if not bad:
        return
    whole = f"{command_text('inspect', where)} names all" if otherwise is None and most < NAMED_BY_INSPECT else ""
    damaged, other = parted(bad)
    lines = [f"{where}: {counted(bad)} cannot be used; "]
    if damaged:
        lines[0] += "remove or replace:"
        lines += named(damaged, most, whole)
    if other and damaged:
        lines.append(f"{MOVE_THEM}:")
    elif other:
        lines[0] += "no image by its name either; move it elsewhere:" if len(other) == 1 else f"{MOVE_THEM}:"
    lines += named(other, most, whole)
    raise DataError("\n".join([*lines, SKIPPING if otherwise is None else otherwise]))


def _by_numbers(item: tuple[str, str]) -> list[str | int]:
    """Row 2 before row 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", item[0])]


def _is_no_image(name: str, problem: str) -> bool:
    named_like_one = _ROW.fullmatch(name) or PurePath(name.rstrip(")")).suffix.lower() in SUFFIXES
    return problem in (NOT_AN_IMAGE, EMPTY_FILE, OUTSIDE) and not named_like_one


#: Whether files that are no complete images are refused or left out.
OnBadImage = Literal["error", "skip"]
#: What splits are called, in capitals or not, as folders and in tables.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def split_name(given: str, where: str) -> str:
    """train, val or test, from one of their usual names."""
    if given.lower() not in SPLIT_NAMES:
        raise DataError(f"{where}: unknown split {given!r}. {did_you_mean(given, SPLIT_NAMES)}")
    return SPLIT_NAMES[given.lower()]


def composed(name: str) -> str:
    """A class name in Unicode's composed form, as which most systems store it: the same word is the same class."""
    return unicodedata.normalize("NFC", name)


@dataclass(frozen=True)
class Found:
    """What there is in a folder or a table."""

    files: list[ImageFile]
    bad: Problems
    named: set[str]  # splits of which there is a folder or a row, with an image or without


@dataclass(frozen=True)
class FileListing:
    """Images of a source that are not decoded yet: their files, what their headers say, and what is wrong so far."""

    name: str  # of the data set
    where: str  # the source in messages
    files: Sequence[ImageFile]
    bad: Problems
    on_bad_image: OnBadImage = "error"
    named: Collection[str] = ()  # splits of which the source has a folder or a row, with an image or without
    columns: Sequence[str] = ()  # of a table
    likely: LikelyGroups | None = None  # by a column of the table
    known: Mapping[str, Header] | None = None  # headers, where the files have been opened already
    progress: Progress = untold  # told how many files are read

    @cached_property
    def headers(self) -> Mapping[str, Header]:
        """By the name of the file; files without one go to `bad`."""
        return headers(self.files, self.bad, self.progress) if self.known is None else self.known

    def read(self, side: int, bad: Problems) -> tuple[FileListing, Images | StoredImages, Notes]:
        """All images, small and square, each file opened once: the listing with headers, pixels, what was noted.

        Files that cannot be used go to `bad`, and those without a header to that of the listing, too.
        """
        notes = Notes(of_all=True)
        pixels = self._pixels(self.files, side, bad, notes)
        unopened = {file.name: bad[file.name] for file in self.files if file.name not in notes.headers}
        return replace(self, bad={**self.bad, **unopened}, known=notes.headers), pixels, notes

    def load(self, image_size: int | None = None) -> Splits:
        """Decode the images; without test images a fifth of each class is set aside.

        All images get one square size: `image_size`, else the one they share, else 64. A file that is not a complete
        image is an error that names it; or such files are left out, and classes without training images with them,
        the classes counted again, and it is said.
        """
        size, notes = common_size(self.files, self.headers, image_size)
        bad = dict(self.bad)
        readable = [file for file in self.files if file.name in self.headers]
        seen = Notes()
        pixels = self._pixels(readable, size, bad, seen)
        if self.on_bad_image == "error":
            refuse(bad, self.where)
        good = [row for row, file in enumerate(readable) if file.name not in bad]
        classes = tuple(sorted({readable[row].label for row in good if readable[row].split == "train"}))
        good = [row for row in good if readable[row].label in classes]
        kept = [readable[row] for row in good]
        if bad or len(kept) < len(self.files):
            notes.append(_told(bad, sorted({file.label for file in self.files} - set(classes))))
            pixels = chosen(pixels, good)
        if moving := sum(self.headers[file.name].frames > 1 for file in kept):
            notes.append(f"{moving} image{'s' * (moving > 1)} with several frames or pages: the first one is used")
        shallow = seen.too_few_bits()
        if not shallow:
            return self.in_splits(kept, pixels, notes)
        try:
            splits = self.in_splits(kept, pixels, notes)
        except DataError as error:
            raise DataError(f"{error}\n{shallow}") from error
        return replace(splits, note=f"{splits.note}\nwarning: {shallow}".lstrip())

    def _pixels(self, files: Sequence[ImageFile], side: int, bad: Problems, notes: Notes) -> Images | StoredImages:
        pixels = room_for((len(files), side, side, 3))
        decode_into(pixels, files, bad, notes, self.progress)
        return StoredImages(pixels) if isinstance(pixels, np.memmap) else pixels

    def in_splits(self, kept: Sequence[ImageFile], pixels: Images | StoredImages, notes: Sequence[str] = ()) -> Splits:
        """The splits of decoded images of this listing, a test set set aside if none was given.

        Args:
            kept: the files that are used, all of classes with training images.
            pixels: their images, [N, height, width, channels].
            notes: what there is to say about them.
        """
        check_classes(kept, self.where)
        self._refuse_empty_splits(kept)
        classes = tuple(sorted({file.label for file in kept}))
        present = dict.fromkeys(file.split for file in kept)
        splits = {split: _image_set(kept, pixels, split, classes) for split in present}
        train, test, aside = splits["train"], splits.get("test"), None
        if test is None:
            train, test, aside, note = set_aside_test(train, self.where)
            notes = [*notes, note]
        likely = None if train.groups else self.likely or likely_groups(kept, self.headers, pixels)
        return Splits(self.name, train, test, splits.get("val"), "; ".join(notes), aside, likely)

    def _refuse_empty_splits(self, kept: Sequence[ImageFile]) -> None:
        empty = {*self.named, *(file.split for file in self.files)} - {file.split for file in kept}
        if empty:
            raise DataError(
                f"{self.where}: no image of the {min(empty)} split can be used; replace them or remove the split"
            )


def check_classes(files: Sequence[ImageFile], where: str, hint: str = "add some") -> None:
    """DataError for fewer than two classes, or classes that are tested but not trained on."""
    classes = {split: {file.label for file in files if file.split == split} for split in SPLIT_NAMES.values()}
    for split in ("test", "val"):
        extra = sorted(classes[split] - classes["train"])
        if extra and classes["train"]:
            near = suggestion(extra[0], classes["train"] - classes[split], limit=1)  # it may be spelt otherwise there
            raise DataError(
                f"{where}: class {extra[0]!r} is in the {split} split but not in the train split; add training images "
                f"or remove it{f'. {near}' if near else ''}"
            )
    if len(classes["train"]) < 2:
        raise DataError(
            f"{where}: at least two classes with training images are needed, found {len(classes['train'])}; {hint}"
        )


def _told(bad: Problems, left_out: Sequence[str]) -> str:
    named = [f"{name} ({bad[name]})" for name in sorted(bad)[:NAMED]]
    if len(bad) > NAMED:
        named.append(f"{len(bad) - NAMED} more, which procrustean inspect names")
    parts = [f"{len(bad)} left out that cannot be used: {', '.join(named)}"] if bad else []
    if left_out:
        parts.append(f"classes left out for want of training images: {', '.join(left_out)}")
    return "; ".join([*parts, "classes counted again"])


def chosen(pixels: Images | StoredImages, rows: Sequence[int]) -> Images | StoredImages:
    """Some images, in their order; all of them are not copied."""
    if len(rows) == len(pixels):
        return pixels
    places = np.array(rows, np.int64)
    return pixels.take(places) if isinstance(pixels, StoredImages) else pixels[places]


def _image_set(
    files: Sequence[ImageFile], pixels: Images | StoredImages, split: str, classes: tuple[str, ...]
) -> ImageSet:
    rows = [row for row, file in enumerate(files) if file.split == split]
    labels = {name: label for label, name in enumerate(classes)}
    taken = [files[row] for row in rows]
    names = tuple(file.name for file in taken)
    groups = tuple(file.group for file in taken) if any(file.group for file in files) else ()
    return ImageSet(
        chosen(pixels, rows), np.array([labels[file.label] for file in taken], np.int64), classes, names, groups
    )
