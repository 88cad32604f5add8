"""How many images a run trains on, known without loading them."""

from __future__ import annotations

import numpy as np

from .config import RunConfig
from .data.imbalance import long_tailed_counts, step_counts
from .data.parting import shares

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
    """Images per class that the run trains on, largest first; None where only the images themselves would tell."""
    if config.source not in BALANCED:
        return None
    classes, largest = BALANCED[config.source]
    classes = len(getattr(config, "classes", ())) or classes
    if config.hold_out_from == "source":
        (largest,) = _kept(config, [largest])
    if config.imbalance == "natural" or config.rho is None:
        counts = [largest] * classes
    elif config.imbalance == "long_tailed":
        counts = long_tailed_counts(largest, classes, config.rho)
    else:
        counts = step_counts(largest, classes, config.rho)
    if config.hold_out_from == "training":
        counts = _kept(config, counts)
    return tuple(sorted(counts, reverse=True))


def _kept(config: RunConfig, counts: list[int]) -> list[int]:
    """Images that classes of so many keep for training; a class that would keep none gives none."""
    amount = config.hold_out or 0
    if amount >= 1:
        return [count - int(amount) if count > amount else count for count in counts]
    # Near-duplicates, which stay together, may leave a class a little more than this.
    kept: list[int] = (np.array(counts) - (shares(np.array(counts), amount) if amount else 0)).tolist()
    return kept


def training_images(config: RunConfig) -> int:
    """Images that an epoch of the run shows."""
    counts = training_counts(config)
    return sum(counts) if counts is not None else NATURAL.get(config.source, GUESS)
