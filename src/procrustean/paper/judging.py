"""Readings of the paper judged on held-out images, never on test images."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from procrustean.base.table_formats import NOTHING, Cell, Statistic, Table, measured_cell, table_of
from procrustean.paper.comparison import Beside, beside
from procrustean.paper.definitions import Cell as Place
from procrustean.paper.definitions import TableSpec
from procrustean.paper.result_store import Store
from procrustean.records.best_of_many import Mean, above, behind, doubts, leader
from procrustean.records.groups import summarise
from procrustean.records.several_runs import last_held_out


@dataclass(frozen=True)
class Reading:
    """A reading in one setting: its accuracy on the held-out images in the last epoch, and on the test set."""

    name: str
    judged: Statistic
    test: Beside
    same_as: str | None  # an earlier reading that comes to the very same runs

    @property
    def mean(self) -> Mean:
        return Mean.of(self.judged)


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
        """Of those that were repeated, if any were."""
        name = leader({reading.name: reading.mean for reading in self.rivals})
        return next(reading for reading in self.rivals if reading.name == name)

    def text(self) -> str:
        """The finding in a few sentences.

        All are judged on the same images. That these may suit one reading better than another is not counted, only the
        seeds are.
        """
        if len(self.rivals) < 2:
            return f"{self.column}: only one reading has been measured."
        return f"{self.column}: {_finding({reading.name: reading.mean for reading in self.rivals})}"


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
            results = store.repeats(cell.config(data_seed=data_seed))
            judged = summarise(last_held_out(result.record) for result in results)
            if judged is None:
                continue
            images = results[0].data.held_out
            runs = tuple(str(result.path) for result in results)
            same_as = seen.setdefault(runs, cell.row)
            test = beside(spec, cell, store, data_seed=data_seed)
            readings.append(Reading(cell.row, judged, test, None if same_as == cell.row else same_as))
        if readings:
            found.append(Judgement(column, images, tuple(readings)))
    return found


def judgement_table(spec: TableSpec, judgement: Judgement) -> Table:
    """The readings of one setting: chosen on the held-out images, the test set only beside them."""
    measured = {"judged": "held-out images, last epoch", "last": "test, last"}
    measured |= {"held_out": "test, epoch chosen on them", "oracle": "test, oracle"}
    title = f"{spec.title}: {judgement.column}, judged on {judgement.images} held-out images"
    rows = [_line(reading, reading.name == judgement.best.name) for reading in judgement.readings]
    headings = {"reading": "reading", "seeds": "seeds", **measured, "paper": "paper"}
    return table_of(title, headings, rows, measured=measured)


def _line(reading: Reading, best: bool) -> tuple[str | Cell, ...]:
    test, seeds = reading.test, reading.judged.n
    name = reading.name if reading.same_as is None else f"{reading.name} (the same runs as {reading.same_as})"
    return (
        name,
        str(seeds),
        measured_cell(reading.judged, runs=seeds, best=best),
        measured_cell(test.last, runs=seeds),
        measured_cell(test.held_out, runs=seeds),
        measured_cell(test.oracle, runs=seeds),
        NOTHING if test.paper is None else test.paper.text,
    )


def overall(spec: TableSpec, judgements: Sequence[Judgement]) -> str:
    """The finding over all settings, of the readings that were measured in each; empty where there is no choice."""
    if len(judgements) < 2 or spec.by_column:
        return ""
    rivals = {reading.name for judgement in judgements for reading in judgement.rivals}
    everywhere = rivals.intersection(*({reading.name for reading in j.readings} for j in judgements))
    means = {
        name: Mean.over([r.mean for judgement in judgements for r in judgement.readings if r.name == name])
        for name in sorted(everywhere)
    }
    if len(means) < 2:
        return ""
    ranked = dict(sorted(means.items(), key=lambda item: -item[1].value))
    return f"Mean over these {len(judgements)} settings: {_finding(ranked)}"


def _finding(ranked: Mapping[str, Mean]) -> str:
    """Which is best of readings that are listed from the highest on, and how sure that is."""
    name = leader(ranked)
    best, others = ranked[name], {other: mean for other, mean in ranked.items() if other != name}
    said = (f"best is {name}, {best.points:.1f}.", above(best, others), doubts(best, others), behind(best, others))
    return " ".join(filter(None, said))
