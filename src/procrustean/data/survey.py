"""Read every image of a source once and note what there is; broken files are noted, not refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import median

import numpy as np

from procrustean.base.errors import DataError
from procrustean.base.progress import Reporter
from procrustean.data.duplicates import Groups, fingerprints, near_duplicates, too_dark
from procrustean.data.image_files import ImageFile, Problems
from procrustean.data.image_lists import NAMED_BY_INSPECT, FileListing, chosen, refuse
from procrustean.data.imageset import Images, Indices, Splits, StoredImages
from procrustean.data.sources import is_files, list_source, load_source

SPLITS = ("train", "val", "test")
#: The side at which images are compared.
THUMBNAIL = 32


@dataclass(frozen=True)
class Twins:
    """Images that are near-duplicates of one another; those whose pixels agree are copies."""

    names: tuple[str, ...]
    splits: tuple[str, ...]
    labels: tuple[str, ...]
    pixels: tuple[str, ...]  # equal for copies

    @property
    def across(self) -> bool:
        """On more than one side of a split."""
        return len(set(self.splits)) > 1

    @property
    def contradict(self) -> bool:
        """With different labels."""
        return len(set(self.labels)) > 1

    @property
    def copies(self) -> bool:
        """All of them the same image."""
        return len(set(self.pixels)) == 1

    @property
    def copies_across(self) -> bool:
        """The same image on more than one side of a split."""
        return len(set(zip(self.pixels, self.splits, strict=True))) > len(set(self.pixels))

    @property
    def copies_contradict(self) -> bool:
        """The same image with different labels."""
        return len(set(zip(self.pixels, self.labels, strict=True))) > len(set(self.pixels))


@dataclass(frozen=True)
class Survey:
    """What there is in a source."""

    name: str
    classes: tuple[str, ...]
    counts: dict[str, list[int]]  # split -> images per class, broken ones left out
    sizes: Counter[tuple[int, int]]  # (width, height) -> images
    modes: Counter[str]  # RGB, L, ... -> images
    bad: Problems
    twins: tuple[Twins, ...]
    listing: FileListing | None  # None for arrays
    splits: Splits | None  # as training splits them, files as small pictures; None if it would refuse them
    refused: str = ""  # why it would
    shallow: str = ""  # what is to be done about 16-bit images that use few of their bits
    too_dark: str = ""  # why near-duplicates cannot be told

    @property
    def side(self) -> int:
        """The usual length of the shorter side."""
        return round(median(min(size) for size in self.sizes.elements()))

    @property
    def train(self) -> list[int]:
        """Training images per class, before anything is set aside."""
        return self.counts["train"]

    @property
    def has_test(self) -> bool:
        return any(self.counts["test"])

    @property
    def has_val(self) -> bool:
        return any(self.counts["val"])


def survey(source: str, *, group: str | None = None, reporter: Reporter | None = None) -> Survey:
    """Read all images of a source.

    Args:
        source: a folder, a table, a saved data set, a .npz file or a known data set.
        group: what images that belong together have in common.
        reporter: told of the progress.
    """
    reporter = reporter or Reporter()
    if not is_files(source):
        return _of_arrays(load_source(source, group=group, say=reporter.say))
    listing = list_source(source, "skip", group)
    if not listing.files:
        refuse(listing.bad, listing.where, most=NAMED_BY_INSPECT)
        list_source(source, group=group)  # says why there are none
    return _of_files(replace(listing, progress=reporter.reading))


def _of_files(listing: FileListing) -> Survey:
    bad = dict(listing.bad)
    listing, pixels, notes = listing.read(THUMBNAIL, bad)
    headers = listing.headers
    kept = [row for row, file in enumerate(listing.files) if file.name not in bad]
    if not kept:
        refuse(bad, listing.where, most=NAMED_BY_INSPECT)
    files, pixels = [listing.files[row] for row in kept], chosen(pixels, kept)
    prints = fingerprints(pixels)
    groups = near_duplicates(prints)
    classes = tuple(sorted({file.label for file in listing.files}))
    tally = Counter((file.split, file.label) for file in files)
    counts = {split: [tally[split, name] for name in classes] for split in SPLITS}
    sizes = Counter((headers[file.name].width, headers[file.name].height) for file in files)
    modes = Counter(headers[file.name].mode for file in files)
    described = [(file.name, file.split, file.label) for file in files]
    splits, refused = _as_in_training(listing, files, pixels)
    twins = _twins(groups, described, lambda rows: [notes.digests[files[row].name] for row in rows])
    told = notes.too_few_bits(), too_dark(prints)
    return Survey(listing.name, classes, counts, sizes, modes, bad, twins, listing, splits, refused, *told)


def _as_in_training(
    listing: FileListing, files: Sequence[ImageFile], pixels: Images | StoredImages
) -> tuple[Splits, str] | tuple[None, str]:
    """The splits that training makes, broken files left out, or why it makes none."""
    trained = {file.label for file in files if file.split == "train"}
    rows = [row for row, file in enumerate(files) if file.label in trained]
    try:
        return listing.in_splits([files[row] for row in rows], chosen(pixels, rows)), ""
    except DataError as error:
        return None, str(error)


def _of_arrays(splits: Splits) -> Survey:
    sets = {"train": splits.train, "val": splits.val, "test": splits.test}
    present = {name: images for name, images in sets.items() if images is not None}
    prints = np.concatenate([fingerprints(images.images) for images in present.values()])
    groups = near_duplicates(prints)
    places = [(images.images, row) for images in present.values() for row in range(len(images))]
    classes = splits.train.classes
    described = [
        (f"{split} image {row}", split, classes[label])
        for name, images in present.items()
        for split, rows in (_places(splits, name, len(images)),)
        for row, label in zip(rows, images.labels, strict=True)
    ]
    counts = {name: [0] * len(classes) for name in SPLITS}
    for name, images in present.items():
        into, _ = _places(splits, name, len(images))
        counts[into] = [int(a + b) for a, b in zip(counts[into], images.counts, strict=True)]
    height, width, channels = splits.train.images.shape[1:]
    total = len(described)
    modes = Counter({"RGB" if channels == 3 else "L": total})
    sizes = Counter({(width, height): total})
    twins = _twins(groups, described, lambda rows: [_digest(*places[row]) for row in rows])
    return Survey(splits.name, classes, counts, sizes, modes, {}, twins, None, splits, too_dark=too_dark(prints))


def _digest(images: Images | StoredImages, row: int) -> str:
    return sha256(images[row].tobytes()).hexdigest()


def _places(splits: Splits, name: str, images: int) -> tuple[str, Indices]:
    """The split of the source that loaded images are of, and their positions in it.

    A test set that the loader has set aside is not part of the source: its images are training images there.
    """
    if splits.aside is None or name == "val":
        return name, np.arange(images)
    if name == "test":
        return "train", splits.aside
    return "train", np.setdiff1d(np.arange(images + len(splits.aside)), splits.aside)


def _twins(
    groups: Groups, described: list[tuple[str, str, str]], digests: Callable[[list[int]], list[str]]
) -> tuple[Twins, ...]:
    """Near-duplicates with their names, splits and labels.

    Args:
        groups: of near-duplicates, [N].
        described: name, split and label of each image.
        digests: of the pixels of images, by their positions.
    """
    sizes = np.bincount(groups) if len(groups) else np.zeros(0, np.int64)
    members: dict[int, list[int]] = {int(group): [] for group in np.flatnonzero(sizes > 1)}
    for row, group in enumerate(groups):
        if int(group) in members:
            members[int(group)].append(row)
    alike = [row for rows in members.values() for row in rows]
    pixels = dict(zip(alike, digests(alike), strict=True))
    found = []
    for rows in members.values():
        names, splits, labels = zip(*(described[row] for row in rows), strict=True)
        found.append(Twins(names, splits, labels, tuple(pixels[row] for row in rows)))
    return tuple(found)
