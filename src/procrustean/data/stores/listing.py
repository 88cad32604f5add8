"""What a reader of an official layout finds: the images of each split, and everything that is wrong with them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError

Labels = npt.NDArray[np.int64]
#: How images become square: the middle of them, or all of them stretched.
Resize = Literal["crop", "stretch"]

#: How many problems of a kind are told.
SHOWN = 5
#: Kinds of problems, in the order in which they are told.
KINDS = ("missing", "damaged", "wrong label", "duplicate", "bad line", "count")


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


Key = TypeVar("Key")
Value = TypeVar("Value", str, int)


class Line(NamedTuple):
    """An image that a list names."""

    where: str  # list and number of the line
    path: str
    label: int


def read_lines(path: Path, problems: list[Problem]) -> Iterator[Line]:
    """The lines of a list file; those that are no `path label` become problems."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name, _, label = line.strip().rpartition(" ")
        where = f"{path.name}, line {number}"
        if name and label.isdigit():
            yield Line(where, name.strip(), int(label))
        elif line.strip():
            problems.append(Problem("bad line", where, f"no `path label`: {line[:80]!r}"))


def listing_of(
    root: Path,
    lines: Mapping[str, Iterable[Line]],
    classes: tuple[str, ...],
    *,
    fault: Callable[[Line], str],
    elsewhere: Callable[[str], str] = lambda path: path,
    problems: list[Problem],
) -> Listing:
    """The images that lists name and that are there.

    Args:
        root: what paths are relative to.
        lines: of each split.
        classes: their names, by label.
        fault: what is wrong with the label of a line, "" if nothing is.
        elsewhere: another place where a file may be.
        problems: those of the lists.
    """
    tree = Tree(root)
    seen: dict[str, str] = {}
    parts, listed = {}, {}
    for split, of_split in lines.items():
        paths, labels, all_labels = [], [], []
        for line in of_split:
            if line.path in seen:
                problems.append(Problem("duplicate", f"{line.where}: {line.path}", f"also in {seen[line.path]}"))
                continue
            seen[line.path] = line.where
            if Path(line.path).is_absolute() or ".." in Path(line.path).parts:
                problems.append(Problem("bad line", f"{line.where}: {line.path}", f"outside of {root}"))
                continue
            too_large = f"label {line.label}, but there are {len(classes)} classes"
            wrong = fault(line) if line.label < len(classes) else too_large
            if wrong:
                problems.append(Problem("wrong label", f"{line.where}: {line.path}", wrong))
                continue
            all_labels.append(line.label)
            place = next((path for path in (line.path, elsewhere(line.path)) if tree.has(path)), None)
            if place is None:
                problems.append(Problem("missing", line.path))
                continue
            paths.append(place)
            labels.append(line.label)
        parts[split] = Part(FileSources(root, paths), np.asarray(labels, np.int64))
        listed[split] = counted(all_labels, len(classes))
    return Listing(classes, parts, listed, problems)


def majority(values: Iterable[tuple[Key, Value]]) -> dict[Key, Value]:
    """The value that each key has most often; the smaller of equally frequent ones.

    >>> majority([("a", 1), ("a", 2), ("a", 2), ("b", 7)])
    {'a': 2, 'b': 7}
    """
    counts: dict[Key, Counter[Value]] = {}
    for key, value in values:
        counts.setdefault(key, Counter())[value] += 1
    return {key: min(of_key, key=lambda value: (-of_key[value], value)) for key, of_key in counts.items()}


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
