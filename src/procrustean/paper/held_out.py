"""The runs behind the held-out column: which of them choose their epoch on images that they do not train on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from procrustean.paper.result_store import Store
from procrustean.records.groups import Result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.training_sizes import BALANCED


@dataclass(frozen=True)
class HeldOutRuns:
    """Finished runs of one cell that choose their epoch on held-out images, and how many those are."""

    results: tuple[Result, ...] = ()
    config: RunSpec | None = None  # what they have in common; None without runs
    stand_in: bool = False  # they hold more images out than the column's own runs would


def held_out_variant(config: RunSpec) -> RunSpec | None:
    """The run with a hundredth of the source's images held out, at least 3 per class, for the held-out column.

    They are cut from the source before it is made imbalanced, so that the smallest class loses a hundredth as well,
    at most one image more, and not three of five. None where the run has held-out images already, or the source is
    not made imbalanced.
    """
    if config.hold_out or config.imbalance == "natural" or config.source not in BALANCED:
        return None
    _, largest = BALANCED[config.source]
    return replace(config, hold_out=max(3, largest // 100), hold_out_from="source")


def held_out_runs(store: Store, config: RunSpec) -> HeldOutRuns:
    """The runs of a cell for the held-out column.

    They are the cell's own where these hold images out, else those of its variant. Where that has not been trained,
    runs stand in for it that hold more images out of the source, as those that judge readings of the paper do.
    """
    own = tuple(result for result in store.repeats(config) if result.metrics("held_out") is not None)
    if own:
        return HeldOutRuns(own, config)
    variant = held_out_variant(config)
    if variant is None:
        return HeldOutRuns()
    if results := store.repeats(variant):
        return HeldOutRuns(tuple(results), variant)
    for amount in sorted(store.held_out_of_sources):
        other = replace(variant, hold_out=amount)
        if amount > (variant.hold_out or 0) and (results := store.repeats(other)):
            return HeldOutRuns(tuple(results), other, stand_in=True)
    return HeldOutRuns()
