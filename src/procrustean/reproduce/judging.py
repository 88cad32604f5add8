"""Readings of the paper judged on held-out images, never on test images."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..report.formats import NOTHING, Cell, Column, Table, measured_cell
from ..report.results import Statistic, summarise
from .comparison import Beside, beside
from .definitions import Cell as Place
from .definitions import TableSpec
from .store import Store

#: Standard errors that two readings have to be apart to be told apart.
APART = 2.0


@dataclass(frozen=True)
class Reading:
    """A reading in one setting: its accuracy on the held-out images in the last epoch, and on the test set."""

    name: str
    judged: Statistic
    test: Beside
    same_as: str | None  # an earlier reading that comes to the very same runs


@dataclass(frozen=True)
class Judgement:
    """The readings of one setting, and what the held-out images say about them."""

    column: str
    images: int  # held out, all classes together
    readings: tuple[Reading, ...]  # those that have been measured

    @property
    def rivals(self) -> list[Reading]:
        """Readings that differ from each other, the best first."""
        different = [reading for reading in self.readings if reading.same_as is None]
        return sorted(different, key=lambda reading: -reading.judged.mean)

    @property
    def best(self) -> Reading:
        return self.rivals[0]

    def told_apart(self, one: Reading, other: Reading) -> bool | None:
        """Whether two readings differ by more than their seeds explain; None with single runs.

        All are judged on the same images, whose choice hardly favours one over another.
        """
        a, b = one.judged, other.judged
        if a.sd is None or b.sd is None:
            return None
        error = math.sqrt(a.sd**2 / a.n + b.sd**2 / b.n)
        return abs(a.mean - b.mean) > APART * error

    def text(self) -> str:
        """The finding in a sentence."""
        if len(self.rivals) < 2:
            return f"{self.column}: only one reading has been measured."
        best, second = self.rivals[:2]
        lead = 100 * (best.judged.mean - second.judged.mean)
        apart = self.told_apart(best, second)
        certainty = {
            True: "more than the seeds explain",
            False: "no more than the seeds explain, so undecided",
            None: "from single runs, so undecided",
        }[apart]
        return f"{self.column}: {best.name} is best, {lead:.1f} points before {second.name}, {certainty}."


def judge(
    spec: TableSpec, store: Store, *, data_seed: int = 0, only: Collection[Place] | None = None
) -> list[Judgement]:
    """Every setting of the table in which something has been measured, of all cells or only some."""
    found = []
    for column in spec.columns:
        readings: list[Reading] = []
        seen: dict[tuple[str, ...], str] = {}
        images = 0
        for cell in spec.cells(columns=[column]):
            if only is not None and cell not in only:
                continue
            config = cell.config_or_none(data_seed=data_seed)
            results = [] if config is None else store.repeats_or_none(config)
            judged = summarise(_last_held_out(result.record) for result in results)
            if judged is None:
                continue
            images = int(results[0].data["held_out"])
            runs = tuple(str(result.path) for result in results)
            same_as = seen.setdefault(runs, cell.row)
            test = beside(spec, cell, store, data_seed=data_seed)
            readings.append(Reading(cell.row, judged, test, None if same_as == cell.row else same_as))
        if readings:
            found.append(Judgement(column, images, tuple(readings)))
    return found


def _last_held_out(record: dict[str, object]) -> float | None:
    curves = record["curves"]
    values = curves.get("held_out_balanced_accuracy") if isinstance(curves, dict) else None
    return float(values[-1]) if values else None


def judgement_table(spec: TableSpec, judgement: Judgement) -> Table:
    """The readings of one setting: chosen on the held-out images, the test set only beside them."""
    columns = (
        Column("reading", "reading", numeric=False),
        Column("seeds", "seeds"),
        Column("judged", "held-out images, last epoch", measured=True),
        Column("last", "test, last", measured=True),
        Column("held_out", "test, epoch chosen on them", measured=True),
        Column("oracle", "test, oracle", measured=True),
        Column("paper", "paper"),
    )
    title = f"{spec.title}: {judgement.column}, judged on {judgement.images} held-out images"
    return Table(title, columns, tuple(_line(r, r.name == judgement.best.name) for r in judgement.readings))


def _line(reading: Reading, best: bool) -> tuple[Cell, ...]:
    test, seeds = reading.test, reading.judged.n
    name = reading.name if reading.same_as is None else f"{reading.name} (the same runs as {reading.same_as})"
    return (
        Cell(name),
        Cell(str(seeds)),
        measured_cell(reading.judged, runs=seeds, best=best),
        measured_cell(test.last, runs=seeds),
        measured_cell(test.held_out, runs=seeds),
        measured_cell(test.oracle, runs=seeds),
        Cell(NOTHING if test.paper is None else test.paper.text),
    )


def overall(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Mean over the settings of each reading that was measured in all of them, the best first."""
    if not judgements:
        return {}
    names = set.intersection(*({r.name for r in j.readings} for j in judgements))
    means = {
        name: sum(r.judged.mean for j in judgements for r in j.readings if r.name == name) / len(judgements)
        for name in names
    }
    return dict(sorted(means.items(), key=lambda item: -item[1]))
