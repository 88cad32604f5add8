"""Images of every class taken away from a set, what belongs together only together: a test set, a hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, DataError
from procrustean.data.duplicates import (
    MOST_COMPARED,
    Groups,
    fingerprints,
    near_duplicates,
    too_dark,
)
from procrustean.data.imageset import (
    ImageSet,
    Indices,
    Labels,
    positions_by_class,
    some_names,
)

#: Small classes give up to a quarter of their images, at most this many, so that something can be said about them.
ENOUGH = 10
#: A set is parted when its training is planned and again when it begins, and by every run of a comparison.
_FOUND: WeakKeyDictionary[ImageSet, Groups] = WeakKeyDictionary()


def groups_of(images: ImageSet) -> Groups:
    """Near-duplicates of a set, as equal numbers; they are searched for once."""
    if images not in _FOUND:
        _FOUND[images] = near_duplicates(fingerprints(images.images))
    return _FOUND[images]


def joined(images: ImageSet) -> Groups:
    """What belongs together: the images of a group, and those of groups that share a near-duplicate."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = np.unique(np.array(images.groups), return_inverse=True)[1]
    alike = groups_of(images)
    nodes = (named, alike + named.max() + 1)
    links = coo_array((np.ones(len(images)), nodes), shape=2 * (int(nodes[1].max()) + 1,))
    _, parts = connected_components(links, directed=False)
    return np.asarray(parts[named], dtype=np.int64)


def taken_from(images: ImageSet, counts: Labels, seed: int | npt.NDArray[Any]) -> Indices:
    """Positions of about `counts[c]` images of each class c, with all that belongs together with them."""
    if not images.groups:
        return part(images.labels, groups_of(images), counts, seed)
    return part_mixed(images.labels, joined(images), counts, seed, never=_contradicting(images))


def _contradicting(images: ImageSet) -> npt.NDArray[np.bool_]:
    """Whether an image, or one nearly equal to it, is there under two labels."""
    alike = groups_of(images)
    pairs = np.unique(np.stack([alike, images.labels]), axis=1)
    several: npt.NDArray[np.bool_] = np.bincount(pairs[0])[alike] > 1
    return several


def shares(counts: Labels, share: float) -> Labels:
    """How many images each class gives: its share, and up to a quarter of a small class; none of fewer than four.

    >>> shares(np.array([1000, 40, 20, 4, 3]), 0.15).tolist()
    [150, 10, 5, 1, 0]
    """
    least = np.minimum(ENOUGH, counts // 4)
    wanted = np.maximum(np.round(share * counts).astype(np.int64), least)
    return np.where(counts >= 4, np.minimum(wanted, counts - 1), 0)


def part(labels: Labels, groups: Groups, counts: Sequence[int] | Labels, seed: int | npt.NDArray[Any]) -> Indices:
    """Positions of about `counts[c]` images of each class c; a group is taken as a whole or not at all.

    Class by class, one generator shuffles the positions, and images are taken from the front. A group that has more
    images than are still wanted is passed over, and so is one whose images have different labels. Without
    near-duplicates these are the images that `procrustean.data.select` takes.

    Args:
        labels: of the images, [N].
        groups: of near-duplicates, [N].
        counts: wanted images per class.
        seed: of the shuffling.
    """
    random = np.random.RandomState(seed)
    sizes = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.cumsum(sizes)[:-1])
    taken: list[int] = []
    for label, (count, positions) in enumerate(zip(counts, positions_by_class(labels, len(counts)), strict=True)):
        random.shuffle(positions)
        left, seen = int(count), set()
        for position in positions.tolist():
            group = int(groups[position])
            if left == 0:
                break
            if group in seen:
                continue
            seen.add(group)
            together = members[group]
            if len(together) <= left and (labels[together] == label).all():
                taken.extend([position] if len(together) == 1 else together.tolist())
                left -= len(together)
    return np.array(taken, dtype=np.int64)


def part_mixed(
    labels: Labels,
    groups: Groups,
    counts: Sequence[int] | Labels,
    seed: int | npt.NDArray[Any],
    never: npt.NDArray[np.bool_],
) -> Indices:
    """Positions of about `counts[c]` images of each class c, as whole groups, which may have images of several classes.

    Groups come in random order, those of the rarest class first, and are taken where that brings the numbers nearer to
    those that are wanted. Every class keeps images.

    Args:
        labels: of the images, [N].
        groups: of what belongs together, [N].
        counts: wanted images per class.
        seed: of the order.
        never: images whose groups are not taken, [N].
    """
    wanted = np.asarray(counts, dtype=np.int64)
    numbers = np.zeros((int(groups.max()) + 1, len(wanted)), np.int64)
    np.add.at(numbers, (groups, labels), 1)
    free = np.bincount(groups, weights=never) == 0
    there, had = numbers.sum(axis=0), np.zeros_like(wanted)

    def distance(taken: Labels) -> float:
        return float((((taken - wanted) / np.maximum(wanted, 1)) ** 2).sum())

    order = np.random.RandomState(seed).permutation(len(numbers))
    chosen = np.zeros(len(numbers), bool)
    for label in np.argsort(there, kind="stable"):
        for group in order[(numbers[order, label] > 0) & free[order]]:
            if had[label] >= wanted[label]:
                break
            after = had + numbers[group]
            if not chosen[group] and (after < np.maximum(there, 1)).all() and distance(after) < distance(had):
                chosen[group], had = True, after
    return np.flatnonzero(chosen[groups])


SEED = 0


def shares_for_test(counts: Labels) -> Labels:
    """How many images each class gives to the test set.

    >>> shares_for_test(np.array([10, 3, 1])).tolist()
    [2, 1, 0]
    """
    return np.where(counts >= 2, np.maximum(counts // 5, 1), 0)


def set_aside_test(images: ImageSet, name: str) -> tuple[ImageSet, ImageSet, Indices, str]:
    """Train set, test set, the positions of the latter, ascending, and a note.

    Every fifth image of each class, drawn with a fixed seed, becomes test. A class with 2 to 4 images gives one; a
    class with a single image keeps it for training. Near-duplicates stay on one side.

    Args:
        images: all there are.
        name: where they are from.
    """
    counts = shares_for_test(images.counts)
    if not counts.any():
        raise DataError(
            f"{name}: there is no test set, and no class has the 2 images needed to set one aside; add images"
        )
    test = np.sort(taken_from(images, counts, SEED))
    groups = groups_of(images)
    if not len(test):
        raise DataError(
            f"{name}: there is no test set, and none can be set aside: no class has images to give that do not belong "
            f"together with the others{_example(images, groups)}. Add images that differ, or give a test set. If these "
            "are different images in truth, part them yourself, into folders train and test (a column split in a "
            "table, test_images and test_labels in a .npz file)"
        )
    train = np.setdiff1d(np.arange(len(images)), test)
    note = f"no test images given: 20 % per class set aside as test, seed {SEED}"
    if images.groups:
        note += f"; {len(set(images.groups))} groups, none of them on both sides"
    twins = np.flatnonzero(np.bincount(groups)[groups] > 1)
    if len(twins):
        kind = "equals" if len(images) > MOST_COMPARED else "near-duplicates"
        dark = too_dark(fingerprints(images.subset(twins).images))
        note += f"; {len(twins)} images have {kind}, kept together" + f" ({dark})" * bool(dark)
    untested = np.flatnonzero(np.bincount(images.labels[test], minlength=len(images.classes)) == 0)
    if len(untested):
        names = some_names([images.classes[label] for label in untested])
        note += f"; without an image to spare and so not tested: {names}"
    return images.subset(train), images.subset(test), test, note


def _example(images: ImageSet, groups: Groups) -> str:
    """Two images that look the same; nothing where none do."""
    alike = np.flatnonzero(groups == np.bincount(groups).argmax())[:2]
    if len(alike) < 2:
        return ""
    first, second = (images.names[i] if images.names else f"image {i}" for i in alike)
    dark = too_dark(fingerprints(images.images))
    return f", for example {first} and {second}, which look the same" + f"; {dark}" * bool(dark)


HOLD_OUT_STREAM = 0x401D  # keeps the hold-out's random numbers apart from those of `select`
#: A comparison of methods, --method auto, cannot do without.
WITHOUT_HOLD_OUT = "train without a hold-out: --hold-out 0, with --method erm or another one in place of auto"


class HoldOut(NamedTuple):
    """Positions kept for training and held out, and the classes (numbers) that gave nothing."""

    kept: Indices
    held: Indices
    left_out: tuple[int, ...]


def hold_out(labels: npt.ArrayLike, per_class: int, classes: int, seed: int = 0) -> HoldOut:
    """Take `per_class` images of each class away from training (3 in Ye, Zhan, Chao 2021).

    A class that would be left without any image (it has `per_class` or fewer) gives nothing and is named in
    `left_out`. `kept` stays in the order of `labels`; `held` is grouped by class.
    """
    if per_class < 1:
        raise ConfigError(f"a hold-out needs at least 1 image per class, got {per_class}")
    targets = checked_labels(labels, classes)
    key = np.random.SeedSequence([HOLD_OUT_STREAM, checked_seed(seed)])
    random = np.random.RandomState(key.generate_state(8))
    held, left_out = [], []
    for label, positions in enumerate(positions_by_class(targets, classes)):
        if len(positions) <= per_class:
            left_out.append(label)
            continue
        random.shuffle(positions)
        held.append(positions[:per_class])
    if not held:
        most = int(np.bincount(targets, minlength=classes).max())
        raise ConfigError(
            f"no class can give {per_class} images to the hold-out and keep one: the largest has {most}; "
            + (f"hold out {most - 1} or fewer per class" if most > 1 else WITHOUT_HOLD_OUT)
        )
    taken = np.concatenate(held).astype(np.int64)
    return HoldOut(np.setdiff1d(np.arange(len(targets)), taken), taken, tuple(left_out))


def hold_out_together(images: ImageSet, amount: float, seed: int = 0) -> HoldOut:
    """Take a share of each class, or a number of images, away from training; what belongs together only together.

    Of a share, small classes give up to a quarter, at most 10, and a class of fewer than 4 images nothing: see
    `procrustean.data.set_aside.shares`. Classes that give nothing are named in `left_out`.
    """
    counts = shares(images.counts, amount) if amount < 1 else np.where(images.counts > amount, int(amount), 0)
    key = np.random.SeedSequence([HOLD_OUT_STREAM, checked_seed(seed)])
    held = taken_from(images, counts, key.generate_state(8))
    if not len(held):
        raise ConfigError(
            f"no class can give {amount:g} of its images to the hold-out: the largest has {images.counts.max()}, and "
            f"those that belong together stay together{_example(images, groups_of(images))}. If they are different "
            "images in truth, hold out a number of each class, which looks for no near-duplicates: --hold-out 3; or "
            f"{WITHOUT_HOLD_OUT}"
        )
    given = np.bincount(images.labels[held], minlength=len(images.classes))
    kept = np.setdiff1d(np.arange(len(images)), held)
    return HoldOut(kept, held, tuple(int(c) for c in np.flatnonzero(given == 0)))


def checked_labels(labels: npt.ArrayLike, classes: int) -> Labels:
    targets = np.asarray(labels)
    if targets.ndim != 1 or len(targets) == 0 or targets.dtype.kind not in "iu":
        raise DataError(f"labels must be a non-empty list of whole numbers, got {targets.dtype} {targets.shape}")
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= classes:
        raise DataError(f"labels must lie in 0..{classes - 1} for {classes} classes, got {low}..{high}")
    return targets.astype(np.int64)


def checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise ConfigError(f"a data seed lies in 0..{2**32 - 1}, got {seed}")
    return seed
