"""Long-tailed and step-imbalanced training sets: those of the LDAM-DRW builder (Cao et al. 2019)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, DataError, did_you_mean
from procrustean.base.random_numbers import Stream
from procrustean.data.imageset import ImageSet, Indices, Labels, Splits, positions_by_class, some_names, together
from procrustean.data.set_aside import HoldOut, checked_labels, checked_seed, hold_out_together
from procrustean.data.set_aside import hold_out as hold_out

KINDS = ("long_tailed", "step", "natural")


def long_tailed_counts(largest: int, classes: int, rho: float) -> list[int]:
    """Images per class falling exponentially from `largest` to `largest / rho`, truncated to whole images.

    >>> long_tailed_counts(5000, 10, 100)
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    """
    _check_setting(largest, classes, rho)
    factor = 1 / rho
    return [int(largest * factor ** (i / (classes - 1.0))) for i in range(classes)]


def step_counts(largest: int, classes: int, rho: float) -> list[int]:
    """`largest` images for the first C // 2 classes (major), `largest / rho`, truncated, for the rest.

    >>> step_counts(500, 5, 100)
    [500, 500, 5, 5, 5]
    """
    _check_setting(largest, classes, rho)
    major = classes // 2
    return [largest] * major + [int(largest * (1 / rho))] * (classes - major)


def select(labels: npt.ArrayLike, counts: Sequence[int] | Labels, seed: int = 0) -> Indices:
    """Positions of `counts[c]` images of each class c, grouped by class: those the LDAM-DRW builder takes.

    Class by class, one `RandomState(seed)` shuffles the positions of its images; the first are kept.

    >>> select([0, 1, 0, 1, 0], [2, 1]).tolist()
    [4, 2, 1]
    """
    targets = checked_labels(labels, len(counts))
    random = np.random.RandomState(checked_seed(seed))
    chosen = []
    for label, (count, positions) in enumerate(zip(counts, positions_by_class(targets, len(counts)), strict=True)):
        if not 0 <= count <= len(positions):
            raise DataError(
                f"class {label} has {len(positions)} images, {count} were asked for; ask for 0 to {len(positions)}"
            )
        random.shuffle(positions)
        chosen.append(positions[:count])
    return np.concatenate(chosen).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Imbalanced:
    """An imbalanced training set with its test set; class 0 has the most training images."""

    train: ImageSet
    test: ImageSet
    held_out: ImageSet | None  # taken from the training images, else the source's validation split
    spare: ImageSet | None  # the source's training images used neither for training nor held out
    kind: str  # "long_tailed", "step" or "natural"
    rho: float  # as asked; for "natural" the largest count divided by the smallest
    counts: Labels  # images per class trained on, after the hold-out
    indices: Indices  # of `train`, in its order, into the source's training set
    left_out_classes: tuple[str, ...]  # classes too small to give images to the hold-out
    split_hash: str  # of the source, the chosen and held-out images and the class order
    source_hash: str


def build(
    splits: Splits,
    *,
    imbalance: str,
    rho: float | None = None,
    data_seed: int = 0,
    hold_out: float = 0,
    hold_out_from: Literal["training", "source"] = "training",
) -> Imbalanced:
    """Make a source imbalanced.

    Args:
        splits: the source.
        imbalance: "long_tailed" or "step" (both start from the size of the source's smallest class, so that
            every class can give its share), or "natural" (all training images as they are).
        rho: images of the largest class per image of the smallest, at least 1; not for "natural".
        data_seed: which images are chosen; 0 gives those of the LDAM-DRW builder.
        hold_out: images per class set aside from training, or below 1 their share, near-duplicates kept together
            (0: none; a validation split then takes this role).
        hold_out_from: set them aside from the imbalanced training set ("training"), as one would in practice, or
            from the source before it is made imbalanced ("source"): as many as wanted even of the smallest class,
            for studies that need a precise judgement. The ratio stays; all classes are built from what is left.

    Classes are re-indexed so that smaller indices have more training images; equal classes keep their order.
    """
    source = splits.train
    _refuse_empty_classes(splits)
    if not (math.isfinite(hold_out) and hold_out >= 0) or (hold_out >= 1 and hold_out != int(hold_out)):
        raise ConfigError(f"hold_out must be 0, a share below 1 or the number of images per class, got {hold_out}")
    everything = np.arange(len(source), dtype=np.int64)
    if hold_out_from == "source":
        rest, held, left_out = _parted(source, everything, hold_out, data_seed)
        if left_out:
            _refuse_small_source(splits, hold_out, left_out)
        indices = _chosen(source, rest, imbalance, rho, data_seed)
    elif hold_out_from == "training":
        indices = _chosen(source, everything, imbalance, rho, data_seed)
        indices, held, left_out = _parted(source, indices, hold_out, data_seed)
    else:
        raise ConfigError(f"hold_out_from = {hold_out_from!r} received; accepted: 'training', 'source'")
    reduced = np.bincount(source.labels[indices], minlength=len(source.classes))
    order = np.argsort(-reduced, kind="stable")
    counts = reduced[order].astype(np.int64)
    spare = np.setdiff1d(np.arange(len(source)), np.concatenate([indices, held]))
    held_out = source.subset(held) if hold_out else splits.val
    return Imbalanced(
        train=source.subset(indices).relabelled(order),
        test=splits.test.relabelled(order),
        held_out=held_out.relabelled(order) if held_out else None,
        spare=source.subset(spare).relabelled(order) if len(spare) else None,
        kind=imbalance,
        rho=float(counts[0] / counts[-1]) if rho is None else float(rho),
        counts=counts,
        indices=indices,
        left_out_classes=tuple(source.classes[label] for label in left_out),
        split_hash=_split_hash(splits, indices, held, order),
        source_hash=splits.hash,
    )


def _chosen(source: ImageSet, among: Indices, imbalance: str, rho: float | None, seed: int) -> Indices:
    if imbalance not in KINDS:
        raise ConfigError(f"unknown imbalance {imbalance!r}. {did_you_mean(str(imbalance), KINDS)}")
    if imbalance == "natural":
        if rho is not None:
            raise ConfigError(f"imbalance 'natural' uses the data as they are and takes no rho, got {rho}")
        return among
    if rho is None:
        raise ConfigError(f"imbalance {imbalance!r} needs rho, the ratio of the largest to the smallest class")
    rule = long_tailed_counts if imbalance == "long_tailed" else step_counts
    labels = source.labels[among]
    smallest = int(np.bincount(labels, minlength=len(source.classes)).min())
    return among[select(labels, rule(smallest, len(source.classes), rho), seed)]


def _parted(source: ImageSet, indices: Indices, amount: float, seed: int) -> HoldOut:
    if amount == 0:
        return HoldOut(indices, np.zeros(0, np.int64), ())
    if amount < 1 or source.groups:
        whole = np.array_equal(indices, np.arange(len(source)))
        kept, held, left_out = hold_out_together(source if whole else source.subset(indices), amount, seed)
    else:
        kept, held, left_out = hold_out(source.labels[indices], int(amount), len(source.classes), seed)
    return HoldOut(indices[kept], indices[held], left_out)


def _refuse_small_source(splits: Splits, per_class: float, left_out: Sequence[int]) -> None:
    names = [splits.train.classes[label] for label in left_out]
    raise ConfigError(
        f"{splits.name}: hold_out = {per_class:g} from the source leaves no image of {some_names(names)}; hold out "
        "fewer"
    )


def _refuse_empty_classes(splits: Splits) -> None:
    empty = [name for name, count in zip(splits.train.classes, splits.train.counts, strict=True) if count == 0]
    if empty:
        raise DataError(
            f"{splits.name}: no training image of class {some_names(empty)}; add images or remove the class"
        )


def _split_hash(splits: Splits, indices: Indices, held: Indices, order: Indices) -> str:
    digest = hashlib.sha256(splits.hash.encode("ascii"))
    for chosen in (indices, held, order):
        digest.update(json.dumps(chosen.tolist(), separators=(",", ":")).encode("ascii"))
    return digest.hexdigest()


def _check_setting(largest: int, classes: int, rho: float) -> None:
    if classes < 2:
        raise ConfigError(f"imbalance needs at least 2 classes, got {classes}")
    if largest < 1:
        raise ConfigError(f"the largest class needs at least 1 image, got {largest}")
    if not (math.isfinite(rho) and rho >= 1):
        raise ConfigError(f"rho is the largest class divided by the smallest, so at least 1, got {rho}")
    if int(largest * (1 / rho)) < 1:
        raise ConfigError(
            f"rho {rho:g} leaves a class without images when the largest class has {largest}; take a smaller one"
        )


@dataclass(frozen=True)
class MetaSet:
    """As many images of every class, and where they are from."""

    images: ImageSet
    per_class: int
    spare: int  # how many of them are not trained on; the others are training images


def meta_set(data: Imbalanced, per_class: int, seed: int) -> MetaSet:
    """Choose `per_class` images of each class: spare ones where the class has enough, else training images.

    The authors set their meta images aside before they make a set imbalanced; its largest classes then have no spare
    ones here. A class with too few training images gives all of them, some more than once.
    """
    if per_class < 1:
        raise ConfigError(f"meta_per_class = {per_class!r} received; a balanced set needs at least 1 image per class")
    stream = Stream(seed, "meta")
    parts: list[tuple[ImageSet, Indices]] = []
    spare = 0
    of_train, of_spare = _positions(data.train), _positions(data.spare)
    for label, _ in enumerate(data.train.classes):
        enough = data.spare is not None and int(data.spare.counts[label]) >= per_class
        among = data.spare if data.spare is not None and enough else data.train
        positions = of_spare[label] if among is data.spare else of_train[label]
        chosen = np.resize(positions[stream.permutation(len(positions))], per_class)
        parts.append((among, chosen))
        spare += per_class * enough
    labels = np.concatenate([among.labels[chosen] for among, chosen in parts])
    images = together([among.subset(chosen).images for among, chosen in parts])
    return MetaSet(ImageSet(images, labels, data.train.classes), per_class, spare)


def _positions(images: ImageSet | None) -> list[Indices]:
    return [] if images is None else positions_by_class(images.labels, len(images.classes))
