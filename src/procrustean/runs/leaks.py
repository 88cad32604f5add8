"""Images that are on both sides of a split or under several labels, and validation images that count several times."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from procrustean.base.files import expanded
from procrustean.data.duplicates import Groups, fingerprints, near_duplicates, too_dark
from procrustean.data.imageset import NO_TEST, ImageSet
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
    # What is shown in place of test images is no test.
    tested = None if prepared.splits.note.startswith(NO_TEST) else data.test
    sets = {"training": data.train, "validation": data.held_out, "test": tested}
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
    alike = near_duplicates(prints)
    copies = _copies(present, alike)
    ends = np.cumsum([len(images) for images in present.values()])[:-1]
    same, similar = (dict(zip(present, np.split(groups, ends), strict=True)) for groups in (copies, alike))
    names = [name for images in present.values() for name in images.names]
    findings = [
        *_one_set(similar),
        *_copies_of_training(same),
        *_repeated(same.get("validation") if own_validation else None),
        *_contradicting(present, copies, names),
    ]
    if not (dark := too_dark(prints)):
        return [*findings, *_like_training(same, similar, names), *_alike_in_others(present, copies, alike, names)]
    if len(np.unique(alike)) < len(np.unique(copies)):
        findings.append(f"{dark}: whether some are on both sides of a split cannot be told. Give them all values")
    return findings


def _copies(present: dict[str, ImageSet], groups: Groups) -> Groups:
    """Groups of images whose pixels agree, which are near-duplicates as well."""
    found: dict[bytes, int] = {}
    sizes, row, copies = np.bincount(groups), 0, np.arange(len(groups))
    for images in present.values():
        for position in range(len(images)):
            if sizes[groups[row]] > 1:
                copies[row] = found.setdefault(sha256(images.images[position].tobytes()).digest(), row)
            row += 1
    return copies


def shared(one: Groups, other: Groups) -> int:
    """How many images of one set are of a group of the other."""
    return int(np.isin(one, other).sum())


def _one_set(similar: dict[str, Groups]) -> list[str]:
    test, validation = similar.get("test"), similar.get("validation")
    if test is None or validation is None or not (both := shared(test, validation)):
        return []
    same = "the two are one set, and what is chosen on it is not tested by it"
    some = "what is chosen on these is not tested by them"
    return [
        f"{both} of {len(test)} test images are, or nearly are, validation images as well: "
        f"{same if both > len(test) / 2 else some}"
    ]


def _copies_of_training(same: dict[str, Groups]) -> list[str]:
    if "test" not in same or not (both := shared(same["test"], same["training"])):
        return []
    return [
        f"{both} of {len(same['test'])} test images are training images too, pixel for pixel; the results are too good "
        "by as much. procrustean inspect names them"
    ]


def _like_training(same: dict[str, Groups], similar: dict[str, Groups], names: Sequence[str]) -> list[str]:
    test, training = similar["test"], similar["training"]
    rows = np.flatnonzero(np.isin(test, training) & ~np.isin(same["test"], same["training"]))
    if not len(rows):
        return []
    first = np.flatnonzero(training == test[rows[0]])[0]
    tested = sum(len(groups) for groups in similar.values()) - len(test) + rows[0]  # test images come last
    pair = f", such as {names[tested]} like {names[first]}" if names else ""
    return [
        f"{len(rows)} of {len(test)} test images look like a training image{pair}. If they are the same, the results "
        "are too good by as much. procrustean inspect names them"
    ]


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


def _contradicting(present: dict[str, ImageSet], copies: Groups, names: Sequence[str]) -> list[str]:
    mixed = _under_several_labels(present, copies)
    if not len(mixed):
        return []
    told, each = "1 image is there", "it"
    if len(mixed) > 1:
        told, each = f"{len(mixed)} images are there", "each"
    told += " under different labels, pixel for pixel, of which one can be right"
    return [_with_names(told, present, copies, mixed, names, f"Keep {each} under the right one")]


def _alike_in_others(present: dict[str, ImageSet], copies: Groups, alike: Groups, names: Sequence[str]) -> list[str]:
    told = np.unique(alike[np.isin(copies, _under_several_labels(present, copies))])
    mixed = np.setdiff1d(_under_several_labels(present, alike), told)
    if not len(mixed):
        return []
    begins = "images under different labels look alike"
    return [_with_names(begins, present, alike, mixed, names, "Look at them before you change a label")]


def _under_several_labels(present: dict[str, ImageSet], groups: Groups) -> Groups:
    labels = np.concatenate([images.labels for images in present.values()])
    lowest, highest = np.full(groups.max() + 1, labels.max()), np.zeros(groups.max() + 1, np.int64)
    np.minimum.at(lowest, groups, labels)
    np.maximum.at(highest, groups, labels)
    return np.flatnonzero(lowest < highest)


def _with_names(
    told: str, present: dict[str, ImageSet], groups: Groups, mixed: Groups, names: Sequence[str], remedy: str
) -> str:
    """What is found, with the images of the first groups and their labels."""
    labels = np.concatenate([images.labels for images in present.values()])
    if len(names) < len(labels):  # of arrays
        return f"{told}. procrustean inspect finds such images"
    classes = next(iter(present.values())).classes
    shown = []
    for group in mixed[:NAMED]:
        rows = np.flatnonzero(groups == group)
        first_of_each = np.unique(labels[rows], return_index=True)[1]  # or all that are named may be of one label
        chosen = np.sort([*first_of_each, *np.delete(np.arange(len(rows)), first_of_each)][:NAMED_OF_EACH])
        listed = [f"{names[row]} as {classes[labels[row]]}" for row in rows[chosen]]
        shown.append(", ".join(listed) + f" and {len(rows) - NAMED_OF_EACH} more" * (len(rows) > NAMED_OF_EACH))
    rest = f"; and {len(mixed) - NAMED} more, which procrustean inspect finds" * (len(mixed) > NAMED)
    return f"{told}: {'; '.join(shown)}{rest}. {remedy}"
