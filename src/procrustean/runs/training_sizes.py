"""How many images a run trains on, known without loading them."""

from __future__ import annotations

import numpy as np

from procrustean.data.imbalance import long_tailed_counts, step_counts
from procrustean.data.set_aside import shares
from procrustean.data.sets.data_set_table import known
from procrustean.data.sources import is_named, label_counts
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import recipe_of


def balanced_size(source: str) -> int | None:
    """Training images of each class of a data set that is made imbalanced; None for any other source."""
    counts = set(known(source).counts.get("train", ())) if is_named(source) else set()
    return counts.pop() if len(counts) == 1 else None


def training_counts(config: RunSpec) -> tuple[int, ...] | None:
    """Images per class that the run trains on, largest first; None where only the images themselves would tell."""
    size = balanced_size(config.source)
    if size is None:
        return None
    return _trained_on(config, [size] * len(config.classes or known(config.source).counts["train"]))


def _trained_on(config: RunSpec, counts: list[int]) -> tuple[int, ...]:
    """What is left of classes of so many images, largest first, as `procrustean.data.imbalance.build` makes it."""
    if config.hold_out_from == "source":
        counts = _kept(config, counts)
    if config.imbalance != "natural" and config.rho is not None:
        rule = long_tailed_counts if config.imbalance == "long_tailed" else step_counts
        counts = rule(min(counts), len(counts), config.rho)
    if config.hold_out_from == "training":
        counts = _kept(config, counts)
    return tuple(sorted(counts, reverse=True))


def _kept(config: RunSpec, counts: list[int]) -> list[int]:
    """Images that classes of so many keep for training; a class that would keep none gives none."""
    amount = config.hold_out or 0
    if amount >= 1:
        return [count - int(amount) if count > amount else count for count in counts]
    # Near-duplicates, which stay together, may leave a class a little more than this.
    kept: list[int] = (np.array(counts) - (shares(np.array(counts), amount) if amount else 0)).tolist()
    return kept


def training_images(config: RunSpec) -> int | None:
    """Images that an epoch of the run shows; None where only loading them would tell."""
    counts = training_counts(config)
    if counts is None and is_named(config.source):
        return known(config.source).images("train")
    if counts is None and (own := label_counts(config.source, config.on_bad_image, config.group)) is not None:
        named = [own[name] for name in config.classes if name in own] if config.classes else list(own.values())
        counts = _trained_on(config, named) if named else None
    return None if counts is None else sum(counts)


def trained_images(config: RunSpec) -> int | None:
    """Images shown in the whole run; None where only loading them would tell how many there are."""
    images = training_images(config)
    return None if images is None else recipe_of(config).epochs * images
