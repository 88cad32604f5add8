"""What a reader of an official layout finds: the images of each split, and everything that is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError

if TYPE_CHECKING:
    from procrustean.data.image_files import Problems

Labels = npt.NDArray[np.int64]
#: How images become square: the middle of them, or all of them stretched.
Resize = Literal["crop", "stretch"]


@dataclass
class Part:
    """The images of one split with their labels."""

    place: Path  # the file that holds them
    images: Sequence[Any]  # encoded, or pixels
    labels: Labels

    def name(self, row: int) -> str:
        """What an image is called in messages."""
        return f"{self.place.name}, image {row}"

    def payload(self, start: int, stop: int) -> list[str | bytes | npt.NDArray[np.uint8]]:
        """Images start to stop for a worker: paths, encoded images, or pixels."""
        return list(self.images[start:stop])


class FilePart(Part):
    """The same of files: `images` are their paths below the folder `place`."""

    def name(self, row: int) -> str:
        return str(self.images[row])

    def payload(self, start: int, stop: int) -> list[str | bytes | npt.NDArray[np.uint8]]:
        return [str(self.place / path) for path in self.images[start:stop]]


@dataclass
class Listing:
    """A data set as its reader found it. Images with problems are in `problems`, not in `parts`."""

    classes: tuple[str, ...]
    parts: dict[str, Part]
    listed: dict[str, Labels]  # split -> images per class that the layout names, whole or not
    problems: Problems = field(default_factory=dict)


class Tree:
    """Which files there are below a folder; each folder is listed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, set[str]] = {}

    def files(self, folder: str) -> set[str]:
        """Names of the files of a folder; none if it cannot be listed."""
        if folder not in self._folders:
            try:
                with os.scandir(self.root / folder) as entries:
                    names = {entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")}
            except OSError:
                names = set()
            self._folders[folder] = names
        return self._folders[folder]

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        folder, _, name = path.rpartition("/")
        return name in self.files(folder)


def counted(labels: Sequence[int] | Labels, classes: int) -> Labels:
    """Images per class, [classes]."""
    return np.bincount(np.asarray(labels, dtype=np.int64), minlength=classes).astype(np.int64)


def count_problems(listing: Listing, counts: Mapping[str, Sequence[int]], totals: Mapping[str, int]) -> Problems:
    """Where the images that the files name are not as many as the published ones.

    Args:
        listing: what the files name.
        counts: split -> images of each class.
        totals: split -> images, where those of the classes are not published.
    """
    problems: Problems = {}
    for split, expected in counts.items():
        found = listing.listed[split]
        if len(found) != len(expected):
            problems[split] = f"{len(found)} classes, {len(expected)} expected"
            continue
        for label, (number, wanted) in enumerate(zip(found.tolist(), expected, strict=True)):
            if number != wanted:
                problems[f"{split}, class {listing.classes[label]}"] = f"{number} images, not {wanted}"
    for split, total in totals.items():
        number = int(listing.listed[split].sum())
        if number != total:
            problems[split] = f"{number:,} images, {total:,} expected"
    return problems


class Line(NamedTuple):
    """An image that a list names."""

    where: str  # list and number of the line
    path: str
    label: int


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a list file, each of them `path label`."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name, _, label = line.strip().rpartition(" ")
        if name and label.isdigit():
            yield Line(f"{path}, line {number}", name.strip(), int(label))
        elif line.strip():
            raise DataError(f"{path}, line {number}: no `path label`: {line[:80]!r}; get the list again")


def listing_of(
    root: Path,
    lines: Mapping[str, Iterable[Line]],
    classes: tuple[str, ...],
    elsewhere: Callable[[str], str] = lambda path: path,
) -> Listing:
    """The images that lists name; those that are not there are problems.

    Args:
        root: what paths are relative to.
        lines: of each split.
        classes: their names, by label.
        elsewhere: another place where a file may be.
    """
    tree = Tree(root)
    listing = Listing(classes, {}, {})
    for split, of_split in lines.items():
        paths, labels, all_labels = [], [], []
        for line in of_split:
            if Path(line.path).is_absolute() or ".." in Path(line.path).parts:
                raise DataError(f"{line.where}: {line.path} lies outside of {root}; get the list again")
            if not 0 <= line.label < len(classes):
                raise DataError(f"{line.where}: label {line.label}, but there are {len(classes)} classes")
            all_labels.append(line.label)
            place = next((path for path in (line.path, elsewhere(line.path)) if tree.has(path)), None)
            if place is None:
                listing.problems[line.path] = "missing"
                continue
            paths.append(place)
            labels.append(line.label)
        listing.parts[split] = FilePart(root, paths, np.asarray(labels, np.int64))
        listing.listed[split] = counted(all_labels, len(classes))
    return listing


def folder_in(path: str) -> str:
    """The name of the folder that a file lies in.

    >>> folder_in("train/n01440764/1.jpg")
    'n01440764'
    """
    return path.rpartition("/")[0].rpartition("/")[2]


def found_file(name: str, folders: Iterable[Path]) -> Path | None:
    """The file in the first of the folders that has it."""
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def read_text(path: Path) -> str:
    """The text of a list."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); get it again") from error
