"""Our numbers beside the paper's: one cell at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from procrustean.base.statistics import (
    Statistic,
)
from procrustean.paper.definitions import Cell, TableSpec
from procrustean.paper.held_out import HeldOutRuns, held_out_runs
from procrustean.paper.printed_numbers import PaperNumber
from procrustean.paper.result_store import Store
from procrustean.records.groups import (
    Group,
    Result,
    Selection,
    summarise,
)

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
    edited: bool = False  # there are runs of it, but of another text of its method's file

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
        edited=store.left_out_methods.has_earlier(config.method),
    )


def _statistic(results: Sequence[Result], selection: Selection, metric: str) -> Statistic | None:
    found = [metrics for result in results if (metrics := result.metrics(selection)) is not None]
    # Top-1 is the headline: accuracy on a balanced test set, as all of the paper's are, else balanced accuracy.
    return summarise(metrics.get(metrics["headline"] if metric == "top1" else metric) for metrics in found)


def table_cells(
    spec: TableSpec, store: Store, *, metric: str = "top1", data_seed: int = 0, only: Collection[Cell] | None = None
) -> list[Beside]:
    """The cells of a table in its order, all or only some."""
    cells = [cell for cell in spec.cells() if only is None or cell in only]
    return [beside(spec, cell, store, metric=metric, data_seed=data_seed) for cell in cells]
