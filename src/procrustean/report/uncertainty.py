"""How sure a headline is, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.balance.interval import LEVEL
from procrustean.base.table_formats import Cell, Column, Table
from procrustean.data.describe import printable
from procrustean.records.run_record import Result, RunRecord
from procrustean.records.several_runs import Pooled

HEADING = f"{100 * LEVEL:g} % interval"


def interval_text(record: RunRecord) -> str:
    """The headline of a run with its interval and the class with the fewest test images; empty where none is known."""
    measures, metrics = record.image_measures, record.selections.last.metrics
    if measures is None:
        return ""
    drawn = f"{metrics.images} test images"
    if measures.groups is not None:
        drawn += f" in {measures.groups} groups"
    low, high = (f"{100 * end:.1f}" for end in measures.interval)
    name, number = printable(measures.fewest_tested), measures.fewest_images
    return (
        f"{metrics.headline.replace('_', ' ')} {100 * metrics.headline_value:.1f} %, {HEADING} {low} to {high}, by "
        f"{drawn}. Fewest are of {name}: {number}"
    )


def pooled_lines(pooled: Pooled) -> list[str]:
    """The headline of folds taken together, with its interval."""
    metrics, low_high = pooled.metrics, " to ".join(f"{100 * end:.1f}" for end in pooled.interval)
    drawn = f"{metrics.images} images" + ("" if pooled.groups is None else f" in {pooled.groups} groups")
    each = ", ".join(f"{100 * value:.1f}" for value in pooled.each)
    value = f"{metrics.headline.replace('_', ' ')} {100 * metrics.headline_value:.1f} %"
    lines = [
        f"{value}, {HEADING} {low_high}, by {drawn}, each tested once by a network that was not trained on it. The "
        f"folds: {each}"
    ]
    if pooled.untested:
        lines.append(f"{pooled.untested} images were never tested: all of their class belong together")
    return lines


def pooled_table(pooled: Pooled) -> Table:
    """Recall and precision of every class in all folds together."""
    metrics = pooled.metrics
    assert metrics.confusion is not None
    columns = (
        Column("class", "class", numeric=False),
        Column("test_images", "test images"),
        Column("recall", "recall"),
        Column("precision", "precision"),
    )
    tested = [sum(row) for row in metrics.confusion]
    rows = zip(pooled.classes, tested, metrics.recall, metrics.precision, strict=True)
    return Table(
        title="Results of all folds by class in %",
        columns=columns,
        rows=tuple((Cell(name), Cell(str(images)), *map(_share, shares)) for name, images, *shares in rows),
    )


def _share(value: float | None) -> Cell:
    return Cell("—" if value is None else f"{100 * value:.1f}")


def intervals(results: Sequence[Result]) -> Table | None:
    """One row per run with its interval; None where no run has one."""
    rows = []
    for result in results:
        measures, metrics = result.record.image_measures, result.record.selections.last.metrics
        if measures is not None:
            low, high = (f"{100 * end:.1f}" for end in measures.interval)
            images = str(metrics.images) if measures.groups is None else f"{metrics.images} in {measures.groups} groups"
            numbers = (f"{100 * metrics.headline_value:.1f}", low, high, images)
            fewest = f"{printable(measures.fewest_tested)}: {measures.fewest_images}"
            rows.append((Cell(result.label), Cell(str(result.repeat[0])), *map(Cell, numbers), Cell(fewest)))
    if not rows:
        return None
    return Table(
        title=f"{HEADING} of the test result in %, last epoch",
        columns=(
            Column("method", "method", numeric=False),
            Column("seed", "seed"),
            Column("headline", "result"),
            Column("low", "from"),
            Column("high", "to"),
            Column("test_images", "test images"),
            Column("fewest", "fewest of a class"),
        ),
        rows=tuple(rows),
        note="What other test images of the same kind would say: the bootstrap over test images, or over their groups, "
        "class by class. Differences between methods on the same images are surer than these intervals.",
    )
