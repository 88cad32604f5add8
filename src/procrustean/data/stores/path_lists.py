"""Lists of `path label` lines over a tree of image files, as ImageNet-LT and iNaturalist 2018 are published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.stores.listing import FileSources, Listing, Part, Problem, Tree, counted

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
            if _leaves(line.path):
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
                problems.extend(tree.lack(line.path))
                continue
            paths.append(place)
            labels.append(line.label)
        parts[split] = Part(FileSources(root, paths), np.asarray(labels, np.int64))
        listed[split] = counted(all_labels, len(classes))
    return Listing(classes, parts, listed, [*tree.unreadable(), *problems])


def _leaves(path: str) -> bool:
    """Whether a path may lead out of the folder it is relative to."""
    return Path(path).is_absolute() or ".." in Path(path).parts


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
