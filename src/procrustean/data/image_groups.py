"""Which images belong together, as those of one patient do: as the user says, by a column or the path of a file; and
which probably do, though nobody has said so, by names, numbers, and times they were taken at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from procrustean.base.errors import ConfigError, DataError
from procrustean.data.duplicates import Fingerprints, fingerprints
from procrustean.data.image_files import Header, ImageFile
from procrustean.data.imageset import Images, Labels, StoredImages

#: Groups by the folder that an image is in.
PARENT = "parent"
#: How a column of what belongs together is usually called.
_OFFERED = re.compile(
    r"(patient|subject|person|pupil|donor|participant|individual|animal|specimen|case|study|session|visit|series"
    r"|video|clip|scene|burst|sequence|slide|camera|site|location|group)s?([ _-]?(id|nr|no|number|name|index))?",
    re.IGNORECASE,
)
#: Images without a group that are named.
SHOWN = 3
#: A name without the number at its end, as a regular expression for `--group`.
STEM = r"([^/]+?)(?:[-_ .(]+\d+\)?)?\.\w+$"
_NUMBERED = re.compile(r"([^/]*?)(\d{1,15})\D*$")
#: Photographs taken one after the other belong together if no more seconds are between them.
SECONDS = 60
#: Of two images that are taken for a pair at random, one in twenty is more alike than nineteen others of its class.
#: Where so many times more are, in so many pairs at least, it is no chance.
OTHERS, SHARE, FEWEST = 19, 0.2, 4
#: A group of more than this share of all images says nothing.
LARGEST = 0.25
#: More images are not looked at: it would take longer than reading them.
MOST_IMAGES = 50_000

Pair = tuple[int, int]


def names_groups(column: str) -> bool:
    """Whether a column of this name probably says what belongs together.

    >>> [names_groups(name) for name in ("patient_id", "Subject", "label", "width")]
    [True, True, False, False]
    """
    return _OFFERED.fullmatch(column.strip()) is not None


def grouped_by_path(files: Sequence[ImageFile], group: str, root: Path, columns: Sequence[str]) -> list[ImageFile]:
    """The files with the group that their path names.

    Args:
        files: of one source.
        group: "parent", or a regular expression; its parentheses, if it has any, are the name of the group.
        root: what paths are shown relative to.
        columns: of the table that the files are from, for messages.
    """
    there_are = f" (columns of the table: {', '.join(columns)})" if columns else ""
    paths = [path_below(file, root) for file in files]
    if group == PARENT:
        # An image beside folders of groups, right in the folder of its class, belongs to no other one.
        folders = [Path(path).parent.name for path in paths]
        alone = [folder == file.label for folder, file in zip(folders, files, strict=True)]
        named = [path if own else folder for path, folder, own in zip(paths, folders, alone, strict=True)]
        if all(alone):
            raise DataError(
                f"{root}: group = {PARENT!r} needs folders of groups inside the folders of classes; none is there"
            )
    else:
        try:
            pattern = re.compile(group)
        except re.error as error:
            raise ConfigError(
                f"group = {group!r} received: no column{there_are}, not {PARENT!r}, and no regular expression ({error})"
            ) from None
        named = [_name(pattern.search(path)) for path in paths]
    lost = [path for path, name in zip(paths, named, strict=True) if not name]
    if lost:
        raise DataError(
            f"{root}: group = {group!r} names no group for {len(lost)} of {len(files)} images, such as "
            f"{', '.join(lost[:SHOWN])}. Give a regular expression that finds something in each path, a column of a "
            f"table, or {PARENT!r}{there_are}"
        )
    return [replace(file, group=name) for file, name in zip(files, named, strict=True)]


def path_below(file: ImageFile, root: Path) -> str:
    """The path of a file in its source, or what it is called there."""
    if isinstance(file.content, bytes):
        return file.name
    return (file.content.relative_to(root) if file.content.is_relative_to(root) else file.content).as_posix()


def _name(match: re.Match[str] | None) -> str:
    return "" if match is None else "/".join(part or "" for part in match.groups()) or match[0]


@dataclass(frozen=True)
class LikelyGroups:
    """Images that probably belong together."""

    how: str  # by what
    of: dict[str, str]  # image -> group, of images that have a group with others
    option: str = ""  # what to give to --group, if anything can be given
    by_chance: float = 0.02  # the share of a side's images that may belong to trained ones without any reason

    @property
    def number(self) -> int:
        return len(set(self.of.values()))

    def examples(self, number: int) -> list[list[str]]:
        """Images of the first groups."""
        groups = defaultdict(list)
        for image, group in self.of.items():
            groups[group].append(image)
        return [images[:3] for images in list(groups.values())[:number]]


def by_column(column: str, of: dict[str, str]) -> LikelyGroups | None:
    """What a column says whose name promises groups, given the value of each image."""
    kept = _shared(of)
    if not kept or len(set(of.values())) < 2:
        return None
    return LikelyGroups(f"the column {column!r}", kept, column)


def likely_groups(
    files: Sequence[ImageFile], headers: Mapping[str, Header], pixels: Images | StoredImages
) -> LikelyGroups | None:
    """What probably belongs together, told by names that begin alike, times, or numbers that follow on one another.

    None of this alone is a reason: the images of a pair also have to be more alike than others of their classes are.

    Args:
        files: of one source.
        headers: by the names of the files.
        pixels: decoded images, [N, height, width, channels].
    """
    if not 2 * FEWEST <= len(files) <= MOST_IMAGES:
        return None
    paths = [file.name if isinstance(file.content, bytes) else file.content.as_posix() for file in files]
    likeness = _Likeness(pixels, [file.label for file in files])
    stems = [(match := re.search(STEM, path)) and match[1] for path in paths]
    members: dict[str, list[int]] = defaultdict(list)
    for row, stem in enumerate(stems):
        if stem and any(map(str.isdigit, stem)):  # else it names a camera, or a class
            members[stem].append(row)
    pairs = [pair for rows in members.values() for pair in pairwise(rows)]
    if max(map(len, members.values()), default=0) <= LARGEST * len(files) and likeness.of(pairs) is not None:
        of = {files[row].name: str(stems[row]) for rows in members.values() if len(rows) > 1 for row in rows}
        return LikelyGroups("names that begin alike", of, STEM)
    for how, following in (
        (f"photographs taken within {SECONDS} seconds", _in_time(files, headers)),
        ("numbers in their names that follow on one another", _numbered(paths)),
    ):
        alike = likeness.of(following)
        if alike is not None:
            return LikelyGroups(how, _chained(alike, files))
    return None


def _in_time(files: Sequence[ImageFile], headers: Mapping[str, Header]) -> list[Pair]:
    taken = sorted((headers[file.name].taken or 0.0, row) for row, file in enumerate(files) if headers[file.name].taken)
    # Cameras whose clock was never set give many images one time.
    return [(a, b) for (one, a), (other, b) in pairwise(taken) if 0 < other - one <= SECONDS]


def _numbered(paths: Sequence[str]) -> list[Pair]:
    series: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, path in enumerate(paths):
        if match := _NUMBERED.search(Path(path).stem):
            series[match[1]].append((int(match[2]), row))
    ordered = (pairwise(sorted(numbers)) for numbers in series.values())
    return [(a, b) for pairs in ordered for (one, a), (other, b) in pairs if other - one <= 1]


class _Likeness:
    """Which pairs of images are more alike than others of the same classes."""

    def __init__(self, pixels: Images | StoredImages, labels: Sequence[str]) -> None:
        self._pixels = pixels
        self._labels: Labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        self._prints: Fingerprints | None = None

    def of(self, pairs: Sequence[Pair]) -> list[Pair] | None:
        """The pairs that are, in classes large enough to tell; None if there are no more than chance makes."""
        counts = np.bincount(self._labels)
        pairs = [pair for pair in pairs if counts[self._labels[pair[1]]] > OTHERS]
        if len(pairs) < FEWEST:
            return None
        if self._prints is None:
            self._prints = fingerprints(self._pixels)
        random = np.random.RandomState(0)
        first, second = np.array(pairs).T
        order = np.argsort(self._labels, kind="stable")
        ends = np.searchsorted(self._labels[order], np.arange(self._labels.max() + 2))
        low, high = ends[self._labels[second]], ends[self._labels[second] + 1]
        nearest = np.full(len(pairs), np.inf)
        for _ in range(OTHERS):
            others = order[low + random.randint(0, 1 << 30, len(pairs)) % (high - low)]
            apart = self._distance(first, others)
            apart[(others == first) | (others == second)] = np.inf
            nearest = np.minimum(nearest, apart)
        alike = self._distance(first, second) < nearest
        if alike.sum() < max(FEWEST, SHARE * len(pairs)):
            return None
        return [pair for pair, is_alike in zip(pairs, alike, strict=True) if is_alike]

    def _distance(self, one: Labels, other: Labels) -> Labels:
        assert self._prints is not None
        return np.asarray(np.abs(self._prints[one] - self._prints[other]).mean(axis=1))


def _chained(pairs: Iterable[Pair], files: Sequence[ImageFile]) -> dict[str, str]:
    """Groups named by their first image; pairs come in order, so that those of a chain follow one another."""
    first: dict[int, int] = {}
    for one, other in pairs:
        first[other] = first.setdefault(one, one)
    return {files[row].name: files[begin].name for row, begin in first.items()}


def _shared(of: dict[str, str]) -> dict[str, str]:
    """Without images that have a group for themselves."""
    sizes: dict[str, int] = defaultdict(int)
    for group in of.values():
        sizes[group] += 1
    return {image: group for image, group in of.items() if sizes[group] > 1}
