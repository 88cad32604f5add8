"""How many images a run trains on, known without loading them."""

from __future__ import annotations

from ..config import RunConfig
from ..data.imbalance import long_tailed_counts, step_counts

#: Classes, and training images of each, of sources that are made imbalanced.
BALANCED = {
    "cifar10": (10, 5000),
    "cifar100": (100, 500),
    "tiny-imagenet": (200, 500),
    "digits": (10, 100),
}
#: Training images of sources that are imbalanced by themselves; that of Tiered-ImageNet is rounded.
NATURAL = {"imagenet-lt": 115_846, "inaturalist18": 437_513, "tiered-imagenet": 431_000}
#: For sources about which nothing is known.
GUESS = 10_000


def training_counts(config: RunConfig) -> tuple[int, ...] | None:
    """Images per class that the run trains on, None where only the images themselves would tell."""
    if config.source not in BALANCED:
        return None
    classes, largest = BALANCED[config.source]
    classes = len(getattr(config, "classes", ())) or classes
    if config.hold_out_from == "source":
        largest -= _held_out(config, largest)
    if config.imbalance == "natural" or config.rho is None:
        counts = [largest] * classes
    elif config.imbalance == "long_tailed":
        counts = long_tailed_counts(largest, classes, config.rho)
    else:
        counts = step_counts(largest, classes, config.rho)
    if config.hold_out_from == "training":
        counts = [count - taken if count > (taken := _held_out(config, count)) else count for count in counts]
    return tuple(counts)


def _held_out(config: RunConfig, count: int) -> int:
    """Images that a class of so many gives: a number, or below 1 a share."""
    amount = config.hold_out or 0
    return round(amount * count) if amount < 1 else int(amount)


def training_images(config: RunConfig) -> int:
    """Images that an epoch of the run shows."""
    counts = training_counts(config)
    return sum(counts) if counts is not None else NATURAL.get(config.source, GUESS)
