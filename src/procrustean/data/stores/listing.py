"""What a reader of an official layout finds: the images of each split, and everything that is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
#: How images become square: the middle of them, or all of them stretched.
Resize = Literal["crop", "stretch"]

#: How many problems of a kind are told.
SHOWN = 5
#: Kinds of problems, in the order in which they are told.
KINDS = ("unreadable folder", "missing", "damaged", "wrong label", "duplicate", "bad line", "count")


@dataclass(frozen=True)
class Problem:
    """Something wrong with an image or a list."""

    kind: str  # one of KINDS
    where: str  # file, folder or line
    text: str = ""  # more about it


class Sources(Protocol):
    """Where the images of a split are taken from."""

    def __len__(self) -> int: ...

    def name(self, row: int) -> str:
        """What an image is called in messages."""
        ...

    def payload(self, start: int, stop: int) -> list[str | bytes | npt.NDArray[np.uint8]]:
        """Images start to stop for a worker: paths, encoded images, or pixels."""
        ...


@dataclass(frozen=True)
class FileSources:
    """Image files below a folder."""

    root: Path
    paths: Sequence[str]

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, row: int) -> str:
        return self.paths[row]

    def payload(self, start: int, stop: int) -> list[str | bytes | npt.NDArray[np.uint8]]:
        return [str(self.root / path) for path in self.paths[start:stop]]


@dataclass
class Part:
    """The images of one split with their labels."""

    sources: Sources
    labels: Labels


@dataclass
class Listing:
    """A data set as its reader found it. Images with problems are in `problems`, not in `parts`."""

    classes: tuple[str, ...]
    parts: dict[str, Part]
    listed: dict[str, Labels]  # split -> images per class that the layout names, whole or not
    problems: list[Problem] = field(default_factory=list)


class Tree:
    """Which files there are below a folder; each folder is listed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, set[str] | str] = {}  # folder -> its files, or why it cannot be listed
        self._lost: dict[str, int] = {}  # folder that cannot be listed -> images that were looked for in it

    def files(self, folder: str) -> set[str]:
        """Names of the files of a folder; none if it cannot be listed."""
        if folder not in self._folders:
            self._folders[folder] = self._listed(folder)
        found = self._folders[folder]
        return set() if isinstance(found, str) else found

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        folder, _, name = path.rpartition("/")
        return name in self.files(folder)

    def lack(self, path: str) -> Iterator[Problem]:
        """The problem that a file is not there; of a folder that cannot be listed `unreadable` tells, once for all."""
        folder = path.rpartition("/")[0]
        self.files(folder)
        if isinstance(self._folders[folder], str):
            self._lost[folder] = self._lost.get(folder, 0) + 1
        else:
            yield Problem("missing", path)

    def lack_all(self, folder: str) -> Iterator[Problem]:
        """The problem that a folder has no files, where nothing says which there should be."""
        self.files(folder)
        if isinstance(self._folders[folder], str):
            self._lost.setdefault(folder, 0)
        else:
            yield Problem("missing", folder, "no image in it")

    def unreadable(self) -> Iterator[Problem]:
        """A problem for each folder that could not be listed."""
        for folder, found in self._folders.items():
            if isinstance(found, str) and folder in self._lost:
                lost = self._lost[folder]
                yield Problem(
                    "unreadable folder", folder, f"{found}; {lost} image{'s' * (lost != 1)}" if lost else found
                )

    def _listed(self, folder: str) -> set[str] | str:
        try:
            with os.scandir(self.root / folder) as entries:
                return {entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")}
        except OSError as error:
            return error.strerror or str(error)


def counted(labels: Sequence[int] | Labels, classes: int) -> Labels:
    """Images per class, [classes]."""
    return np.bincount(np.asarray(labels, dtype=np.int64), minlength=classes).astype(np.int64)


def count_problems(
    listing: Listing, counts: Mapping[str, Sequence[int]], totals: Mapping[str, int]
) -> Iterator[Problem]:
    """Where the images that the files name are not as many as the published ones.

    Args:
        listing: what the files name.
        counts: split -> images of each class.
        totals: split -> images, where those of the classes are not published.
    """
    for split, expected in counts.items():
        found = listing.listed[split]
        if len(found) != len(expected):
            yield Problem("count", split, f"{len(found)} classes, {len(expected)} expected")
            continue
        for label, (number, wanted) in enumerate(zip(found.tolist(), expected, strict=True)):
            if number != wanted:
                yield Problem("count", f"{split}, class {listing.classes[label]}", f"{number} images, not {wanted}")
    for split, total in totals.items():
        number = int(listing.listed[split].sum())
        if number != total:
            yield Problem("count", split, f"{number:,} images, {total:,} expected")


def told(problems: Sequence[Problem], shown: int = SHOWN) -> list[str]:
    """Some lines for people: each kind with its number and its first cases."""
    lines = []
    for kind in KINDS:
        cases = [problem for problem in problems if problem.kind == kind]
        if not cases:
            continue
        lines.append(f"{kind}: {len(cases):,}")
        lines += [f"  {_case(problem)}" for problem in cases[:shown]]
        if len(cases) > shown:
            lines.append(f"  and {len(cases) - shown:,} more")
    return lines


def write_list(problems: Sequence[Problem], path: Path) -> None:
    """All problems, one a line; what is no text in the name of a file is written as its bytes, \\udcff for ff."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{problem.kind}: {_case(problem)}\n" for problem in problems)
    path.write_text(lines, encoding="utf-8", errors="backslashreplace")


def _case(problem: Problem) -> str:
    return f"{problem.where} ({problem.text})" if problem.text else problem.where
