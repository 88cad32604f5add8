"""Our numbers beside the paper's, one cell at a time, and the runs that choose their epoch on held-out images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from procrustean.base.table_formats import Statistic
from procrustean.paper.definitions import Cell, TableSpec
from procrustean.paper.printed_numbers import PaperNumber
from procrustean.paper.result_store import Store
from procrustean.records.groups import Group, summarise
from procrustean.records.run_record import Result, Selection
from procrustean.records.run_spec import RunSpec
from procrustean.runs.training_sizes import balanced_size

Mark = Literal[
    "reproduced", "within noise", "higher", "lower", "higher once", "lower once", "ours alone", "not measured"
]

#: Points within which a number counts as reproduced.
CLOSE = 1.0
#: Behind a number of the held-out column whose runs hold out more images than that column's own would.
STAND_IN = "†"
SIGNS: dict[Mark, str] = {
    "reproduced": "✓",
    "within noise": "≈",
    "higher": "▲",
    "lower": "▼",
    "higher once": "△",
    "lower once": "▽",
    "ours alone": "·",
    "not measured": "",
}


@dataclass(frozen=True)
class Beside:
    """A cell: what we measured, as fractions, and what the paper says, in percent."""

    cell: Cell
    metric: str
    paper: PaperNumber | None
    last: Statistic | None
    oracle: Statistic | None
    held_out: Statistic | None
    held_out_by: HeldOutRuns
    length: str  # epochs and whose schedule; empty where nothing was measured

    @property
    def seeds(self) -> int:
        return 0 if self.last is None else self.last.n

    @property
    def difference(self) -> float | None:
        """Points of the oracle above the paper.

        Of our three selections the best test epoch is the one closest to how published numbers on these sets were
        selected: the codes they build on report it.
        """
        if self.paper is None or self.oracle is None:
            return None
        # Rounded as it is shown, so that the difference is the one a reader computes from the table.
        return round(round(100 * self.oracle.mean, 1) - self.paper.value, 2)

    @property
    def mark(self) -> Mark:
        """Whether the difference is small, or within two standard deviations of our runs; one run has none."""
        if self.oracle is None:
            return "not measured"
        if self.difference is None:
            return "ours alone"
        if abs(self.difference) <= CLOSE:
            return "reproduced"
        if self.oracle.sd is None:
            return "higher once" if self.difference > 0 else "lower once"
        if abs(self.difference) <= 200 * self.oracle.sd:
            return "within noise"
        return "higher" if self.difference > 0 else "lower"


def beside(spec: TableSpec, cell: Cell, store: Store, *, metric: str = "top1", data_seed: int = 0) -> Beside:
    """A cell from all finished runs of its settings, whatever their training seeds."""
    config = cell.config(data_seed=data_seed)
    results = store.repeats(config)
    held_out = held_out_runs(store, config)
    return Beside(
        cell,
        metric,
        spec.paper(cell.row, cell.column, metric),
        last=_statistic(results, "last", metric),
        oracle=_statistic(results, "oracle", metric),
        held_out=_statistic(held_out.results, "held_out", metric),
        held_out_by=held_out,
        length=Group(tuple(results)).length if results else "",
    )


def _statistic(results: Sequence[Result], selection: Selection, metric: str) -> Statistic | None:
    found = [metrics for result in results if (metrics := result.metrics(selection)) is not None]
    # Top-1 is the headline: accuracy on a balanced test set, as all of the paper's are, else balanced accuracy.
    return summarise(metrics.value("headline" if metric == "top1" else metric) for metrics in found)


def table_cells(
    spec: TableSpec, store: Store, *, metric: str = "top1", data_seed: int = 0, only: Collection[Cell] | None = None
) -> list[Beside]:
    """The cells of a table in its order, all or only some."""
    cells = [cell for cell in spec.cells() if only is None or cell in only]
    return [beside(spec, cell, store, metric=metric, data_seed=data_seed) for cell in cells]


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
    if config.hold_out or config.imbalance == "natural" or (largest := balanced_size(config.source)) is None:
        return None
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
