"""The table of data sets: in which file of this folder each of them is, and what it is called there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from procrustean.data.sets.data_set import DataSet

DATA_SETS = {
    "digits": "digits:DIGITS",
    "cifar10": "cifar:CIFAR10",
    "cifar100": "cifar:CIFAR100",
    "tiny-imagenet": "tiny_imagenet:TINY_IMAGENET",
    "tiered-imagenet": "tiered_imagenet:TIERED_IMAGENET",
    "tiered-imagenet-tuning": "tiered_imagenet:TUNING",
    "imagenet-lt": "imagenet_lt:IMAGENET_LT",
    "inaturalist18": "inaturalist:INATURALIST",
}


@cache
def known(name: str) -> DataSet:
    """A data set of the table."""
    file, _, called = DATA_SETS[name].partition(":")
    found: DataSet = getattr(import_module(f"procrustean.data.sets.{file}"), called)
    return found


def all_sets() -> tuple[DataSet, ...]:
    """All of them, in the order of the table."""
    return tuple(map(known, DATA_SETS))
