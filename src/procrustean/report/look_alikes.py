"""Pictures of images that look alike on two sides of a split, and of images that probably belong together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from procrustean.data.imageset import ImageSet, Splits

#: Pairs and groups that are shown.
SHOWN = 5
#: More images are not compared for a page, and of one group no more of a side.
MOST_IMAGES, MOST_OF_A_GROUP = 20_000, 20


@dataclass(frozen=True)
class Pictured:
    """An image of a source."""

    file: str
    side: str
    label: str
    pixels: NDArray[np.uint8]


def look_alikes(splits: Splits) -> list[list[Pictured]]:
    """Of each group of near-duplicates the two on different sides that are most alike, the most alike of all first."""
    from procrustean.data.duplicates import fingerprints, near_duplicates, too_dark

    images, sides = _images(splits), _sides(splits).values()
    if len(images) > MOST_IMAGES:
        return []
    prints = np.concatenate([fingerprints(side.images) for side in sides])
    side_of = np.repeat(np.arange(len(sides)), [len(side) for side in sides])
    if too_dark(prints):
        return []
    groups = near_duplicates(prints)
    order = np.argsort(groups, kind="stable")
    found: list[tuple[float, int, int]] = []
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        parts = [rows[side_of[rows] == side][:MOST_OF_A_GROUP] for side in range(len(sides))]
        pairs = [(a, b) for one, other in combinations(parts, 2) for a in one for b in other]
        found += sorted((float(np.abs(prints[a] - prints[b]).max()), a, b) for a, b in pairs)[:1]
    return [[images[a], images[b]] for _, a, b in sorted(found)[:SHOWN]]


def pictured_groups(splits: Splits) -> list[list[Pictured]]:
    """Some images of the first groups that nobody has named, but that names, times or numbers of files tell of."""
    if splits.likely is None:
        return []
    named = {image.file: image for image in _images(splits)}
    groups = splits.likely.examples(SHOWN)
    return [[named[file] for file in files if file in named] for files in groups]


def _images(splits: Splits) -> list[Pictured]:
    return [
        Pictured(images.names[row] if images.names else f"image {row}", side, images.classes[label], images.images[row])
        for side, images in _sides(splits).items()
        for row, label in enumerate(images.labels)
    ]


def _sides(splits: Splits) -> dict[str, ImageSet]:
    from procrustean.data.imageset import NO_TEST

    # What is shown in place of test images is among the others.
    test = None if splits.note.startswith(NO_TEST) else splits.test
    sides = {"training": splits.train, "validation": splits.val, "test": test}
    return {side: images for side, images in sides.items() if images is not None}
