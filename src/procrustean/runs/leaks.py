"""Images that are on both sides of a split or under several labels, and validation images that count several times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from procrustean.base.files import expanded
from procrustean.data.duplicates import Groups, fingerprints, near_duplicates, too_dark
from procrustean.data.imageset import ImageSet
from procrustean.data.sources import is_named
from procrustean.engine.prepared import Prepared

#: A validation set with more repeats than this share was probably oversampled.
REPEATED = 0.05
#: More images than this are not compared before every training; `procrustean inspect` compares them.
MOST_IMAGES = 20_000
#: Groups of images under several labels that are named, and images of each.
NAMED, NAMED_OF_EACH = 3, 4
#: What was found in sets of images, by their hash and the names of their files, which it tells: the runs of a grid or a
#: comparison share them.
_FOUND: dict[tuple[object, ...], list[str]] = {}
_MOST_KEPT = 16


def leaks(prepared: Prepared) -> list[str]:
    """Near-duplicates of the user's own files across train, validation and test images, or under several labels."""
    data = prepared.data
    if is_named(prepared.config.source) or not expanded(prepared.config.source).exists():
        return []
    sets = {"training": data.train, "validation": data.held_out, "test": data.test}
    present = {name: images for name, images in sets.items() if images is not None}
    if sum(map(len, present.values())) > MOST_IMAGES:
        return []
    key = (data.split_hash, *(images.names for images in present.values()))
    if key not in _FOUND:
        if len(_FOUND) >= _MOST_KEPT:
            _FOUND.clear()
        # What is held out here keeps near-duplicates together on purpose: that is no oversampling of the user's.
        _FOUND[key] = _look_at(present, own_validation=not prepared.config.hold_out)
    return _FOUND[key]


def _look_at(present: dict[str, ImageSet], *, own_validation: bool) -> list[str]:
    prints = np.concatenate([fingerprints(images.images) for images in present.values()])
    groups = near_duplicates(prints)
    ends = np.cumsum([len(images) for images in present.values()])
    by_set = dict(zip(present, np.split(groups, ends[:-1]), strict=True))
    findings = [
        *_across(by_set),
        *_repeated(by_set.get("validation") if own_validation else None),
        *_contradicting(present, groups),
    ]
    if findings and (dark := too_dark(prints)):
        return [f"{dark}: whether some are on both sides of a split cannot be told. Give them the full range of values"]
    return findings


def shared(one: Groups, other: Groups) -> int:
    """How many images of one set have a near-duplicate in the other."""
    return int(np.isin(one, other).sum())


def _across(by_set: dict[str, Groups]) -> list[str]:
    found = []
    test, validation = by_set["test"], by_set.get("validation")
    if validation is not None and (both := shared(test, validation)):
        same = "the two are one set, and what is chosen on it is not tested by it"
        some = "what is chosen on these is not tested by them"
        found.append(
            f"{both} of {len(test)} test images are, or nearly are, validation images as well: "
            f"{same if both > len(test) / 2 else some}"
        )
    if both := shared(test, by_set["training"]):
        found.append(
            f"{both} of {len(test)} test images have a near-duplicate among the training images; the results are too "
            "good by as much. procrustean inspect names them"
        )
    return found


def _repeated(validation: npt.NDArray[np.int64] | None) -> list[str]:
    if validation is None:
        return []
    repeats = len(validation) - len(np.unique(validation))
    if repeats <= REPEATED * len(validation):
        return []
    return [
        f"{repeats} of {len(validation)} validation images are repeats of others, as if it had been oversampled: "
        "validation is for images as they come, balanced accuracy weights the classes; remove the repeats"
    ]


def _contradicting(present: dict[str, ImageSet], groups: Groups) -> list[str]:
    labels = np.concatenate([images.labels for images in present.values()])
    lowest, highest = np.full(groups.max() + 1, labels.max()), np.zeros(groups.max() + 1, np.int64)
    np.minimum.at(lowest, groups, labels)
    np.maximum.at(highest, groups, labels)
    mixed = np.flatnonzero(lowest < highest)
    if not len(mixed):
        return []
    how = "under different labels, as {} or nearly, of which one can be right"
    told, each = f"1 image is there {how.format('it is')}", "it"
    if len(mixed) > 1:
        told, each = f"{len(mixed)} images are there {how.format('they are')}", "each"
    names = [name for images in present.values() for name in images.names]
    if len(names) < len(labels):  # of arrays
        return [f"{told}. procrustean inspect finds such images"]
    classes = next(iter(present.values())).classes
    shown = []
    for group in mixed[:NAMED]:
        rows = np.flatnonzero(groups == group)
        first_of_each = np.unique(labels[rows], return_index=True)[1]  # or all that are named may be of one label
        chosen = np.sort([*first_of_each, *np.delete(np.arange(len(rows)), first_of_each)][:NAMED_OF_EACH])
        listed = [f"{names[row]} as {classes[labels[row]]}" for row in rows[chosen]]
        shown.append(", ".join(listed) + f" and {len(rows) - NAMED_OF_EACH} more" * (len(rows) > NAMED_OF_EACH))
    rest = f"; and {len(mixed) - NAMED} more, which procrustean inspect finds" * (len(mixed) > NAMED)
    return [f"{told}: {'; '.join(shown)}{rest}. Keep {each} under the right one"]
