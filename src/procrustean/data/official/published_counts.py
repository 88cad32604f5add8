"""How many images each class of an official data set has; the package carries the published counts and split lists."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

#: Splits of Tiered-ImageNet: classes and images.
TIERED = {"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)}


@dataclass(frozen=True)
class Known:
    """What a complete data set has."""

    per_class: dict[str, tuple[int, ...]] = field(default_factory=dict)  # split -> images of each class, by label
    totals: dict[str, int] = field(default_factory=dict)  # split -> images, where the classes' are not published


def known_counts(name: str) -> Known:
    """The published counts of a data set.

    >>> known_counts("tiny-imagenet").per_class["test"][:3]
    (50, 50, 50)
    """
    if name == "tiny-imagenet":
        return Known({"train": (500,) * 200, "test": (50,) * 200})
    if name == "imagenet-lt":
        return Known({"train": _listed("ImageNet_LT_train_cls_num.json"), "val": (20,) * 1000, "test": (50,) * 1000})
    if name == "inaturalist18":
        return Known({"train": _listed("iNaturalist18_train_cls_num.json"), "test": (3,) * 8142})
    return Known(totals={split: images for split, (_, images) in TIERED.items()})


@cache
def tiered_classes(split: str) -> tuple[str, ...]:
    """WordNet numbers of the classes of a split of Tiered-ImageNet, in the published order.

    >>> len(tiered_classes("val"))
    97
    """
    lines = _text(f"tieredImageNet_{split}.csv").splitlines()
    return tuple(line.partition(",")[0] for line in lines if line)


@cache
def _listed(name: str) -> tuple[int, ...]:
    return tuple(json.loads(_text(name)))


def _text(name: str) -> str:
    return files("procrustean.data").joinpath("known", name).read_text(encoding="utf-8")
