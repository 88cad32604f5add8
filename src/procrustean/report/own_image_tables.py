"""The tables of runs on own images: how sure a headline is, and which trials decided how a run was trained."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.balance.interval import LEVEL
from procrustean.base.json_files import read_typed
from procrustean.base.table_formats import NOTHING, Table, table_of
from procrustean.data.describe import printable
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.identity import Beginning
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
    tested = [str(sum(row)) for row in metrics.confusion]
    shares = [list(map(_share, values)) for values in (metrics.recall, metrics.precision)]
    headings = {"class": "class", "test_images": "test images", "recall": "recall", "precision": "precision"}
    rows = zip(pooled.classes, tested, *shares, strict=True)
    return table_of("Results of all folds by class in %", headings, rows)


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}"


def intervals(results: Sequence[Result]) -> Table | None:
    """One row per run with its interval; None where no run has one."""
    rows = []
    for result in results:
        measures, metrics = result.record.image_measures, result.record.selections.last.metrics
        if measures is not None:
            low, high = (f"{100 * end:.1f}" for end in measures.interval)
            images = str(metrics.images) if measures.groups is None else f"{metrics.images} in {measures.groups} groups"
            fewest = f"{printable(measures.fewest_tested)}: {measures.fewest_images}"
            value = f"{100 * metrics.headline_value:.1f}"
            rows.append((result.label, str(result.repeat[0]), value, low, high, images, fewest))
    if not rows:
        return None
    headings = {"method": "method", "seed": "seed", "headline": "result", "low": "from", "high": "to"}
    return table_of(
        f"{HEADING} of the test result in %, last epoch",
        {**headings, "test_images": "test images", "fewest": "fewest of a class"},
        rows,
        note="What other test images of the same kind would say: the bootstrap over test images, or over their groups, "
        "class by class. Differences between methods on the same images are surer than these intervals.",
    )


def trials_table(results: Sequence[Result]) -> Table | None:
    """A row for every way that was tried before a run, on images held out from its training images; None without any.

    Results that were copied without the settings of their run have none.
    """
    rows = []
    for result in results:
        began = None if result.path is None else result.path.parent / CONFIG_FILE
        if began is None or not began.is_file():
            continue
        for trial in read_typed(began, Beginning, "restore it, or move the result elsewhere").trials:
            numbers = (
                f"{100 * trial.balanced_accuracy:.1f}", f"{trial.log_loss:.3f}", str(trial.held_out),
                f"{trial.seconds:.0f}",
            )  # fmt: skip
            before = () if len(results) == 1 else (result.label, str(result.repeat[0]))
            rows.append((*before, trial.name, *numbers))
    if not rows:
        return None
    headings = {} if len(results) == 1 else {"method": "method", "seed": "seed"}
    headings |= {"way": "way", "balanced_accuracy": "balanced accuracy in %", "log_loss": "log loss"}
    headings |= {"held_out": "held-out images", "seconds": "seconds"}
    return table_of(
        "Ways to train that were tried on held-out images",
        headings,
        rows,
        words=("method", "way"),
        note="They decided how the run was trained; test images had no say. In the log loss every class counts the "
        "same.",
    )
