"""The tables beside the comparison: of classes, of large and small classes, and of calibration errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from procrustean.balance.metrics import FEW_BELOW, MANY_ABOVE, class_groups
from procrustean.base.errors import RunError
from procrustean.base.table_formats import NOTHING, Cell, Statistic, Table, measured_cell, table_of
from procrustean.records.groups import GROUP_METRICS, Group, split_by_data, summarise
from procrustean.records.run_labels import data_text, distinct_labels
from procrustean.records.run_record import Result, Selection
from procrustean.records.several_runs import choices
from procrustean.report.comparison_table import SELECTIONS, at_least_one, measured_cells, repeats_note
from procrustean.report.run_settings import given_settings

#: What ranks images by their probability of a class, and how it is headed.
RANKED = {"auroc": "AUROC", "average_precision": "average precision"}
UNMARKED = " The best are not marked: the choice was made on the held-out images, and test results had no say."
#: What a table of classes begins with.
COLUMNS = {"class": "class", "train_images": "training images", "test_images": "test images"}


def per_class(
    groups: Sequence[Group], selection: Selection = "last", metric: Literal["recall", "precision"] = "recall"
) -> Table:
    """One row per class with its recall or precision under each setting; the best of each row is marked.

    Raises:
        RunError: when the groups were not trained on the same data; use `split_by_data` first.
    """
    groups = _of_the_same_data(groups)
    first, labels = groups[0], _labels(groups)
    measured = {f"{label} {metric}": label for label in labels}
    values = [group.per_class(metric, selection) for group in groups]
    was_compared, images = any(choices(groups).values()), [group.data_seeds for group in groups]
    cells = [
        measured_cells(list(statistics), groups, images, marked=not was_compared)
        for statistics in zip(*values, strict=True)
    ]
    rows = zip(_class_cells(first, selection), cells, strict=True)
    return table_of(
        f"Test {metric} per class in %, {SELECTIONS[selection]}: {data_text(first)}",
        COLUMNS | measured,
        [(*described, *own) for described, own in rows],
        measured=measured,
        note=repeats_note(groups, "columns")
        + (UNMARKED if was_compared else _about_bold(cells, "row"))
        + given_settings(groups, labels).remark,
        shared=(("data", data_text(first)),),
    )


def by_class(group: Group, selection: Selection = "last") -> Table:
    """One row per class with its images, its recall and its precision under one setting."""
    recall, precision = (group.per_class(metric, selection) for metric in ("recall", "precision"))
    runs = len(group.results)
    ranked = {
        name: _measured_per_class(group, name) if selection == "last" else [] for name in ("auroc", "average_precision")
    }
    ranked = {name: values for name, values in ranked.items() if any(values)}
    measured = {"recall": "recall", "precision": "precision", **{name: RANKED[name] for name in ranked}}
    rows = zip(_class_cells(group, selection), recall, precision, *ranked.values(), strict=True)
    return table_of(
        f"Test results by class in %, {SELECTIONS[selection]}",
        COLUMNS | measured,
        [(*described, *(measured_cell(value, runs=runs) for value in values)) for described, *values in rows],
        measured=measured,
        note=f"{repeats_note([group])} "
        * (runs > 1)
        + "Recall: the share of a class that is found. Precision: the share of the answers with this class that are "
        "right."
        + " AUROC: how often an image of the class has a higher probability of it than one of another class."
        * bool(ranked),
    )


def _measured_per_class(group: Group, name: str) -> list[Statistic | None]:
    """What is measured image by image of every class; nothing of data sets that are not a user's own."""
    measured = [result.record.image_measures for result in group.results]
    found: list[list[float | None]] = [getattr(measures, name) or [] for measures in measured if measures is not None]
    return [summarise(values) for values in zip(*found, strict=True)] if all(found) else []


def _class_cells(group: Group, selection: Selection) -> list[tuple[str, str, str]]:
    """Name, training and test images of every class."""
    metrics = group.results[0].metrics(selection)
    confusion = None if metrics is None else metrics.confusion
    tested = [NOTHING] * len(group.classes) if confusion is None else [str(sum(row)) for row in confusion]
    return list(zip(group.classes, map(str, group.counts), tested, strict=True))


def by_class_size(groups: Sequence[Group], selection: Selection = "last") -> Table:
    """One row per setting with the mean recall of its large and its small classes; the best of each is marked.

    Raises:
        RunError: when the groups were not trained on the same data; use `split_by_data` first.
    """
    groups = _of_the_same_data(groups)
    first, labels = groups[0], _labels(groups)
    members = class_groups(first.counts)
    was_compared, images = any(choices(groups).values()), [group.data_seeds for group in groups]
    cells = [
        measured_cells([group.statistic(name, selection) for group in groups], groups, images, marked=not was_compared)
        for name in GROUP_METRICS
    ]
    sizes = {
        "many": f"more than {MANY_ABOVE} training images",
        "medium": f"{FEW_BELOW} to {MANY_ABOVE}",
        "few": f"fewer than {FEW_BELOW}",
        "major": "at least the geometric mean of the counts",
        "minor": "the rest",
    }
    listed = "; ".join(f"{name}: {sizes[name]} ({int(members[name].sum())} classes)" for name in GROUP_METRICS)
    marks = UNMARKED if was_compared else _about_bold(cells, "column")
    remark = marks + given_settings(groups, labels).remark
    return table_of(
        f"Test recall by class size in %, {SELECTIONS[selection]}: {data_text(first)}",
        {"method": "method", **{name: name for name in GROUP_METRICS}},
        zip(labels, *cells, strict=True),
        measured=GROUP_METRICS,
        note=f"{repeats_note(groups)} Means over the classes of a group. {listed}.{remark}",
        shared=(("data", data_text(first)),),
    )


def _labels(groups: Sequence[Group]) -> list[str]:
    """What settings are called; with their data seeds where these differ, since they say which of them compare."""
    if len({group.data_seeds for group in groups}) == 1:
        return distinct_labels(groups)
    labels = distinct_labels(groups, shown_beside=("data_seed",))
    return [f"{label}, {group.data_seeds_text}" for label, group in zip(labels, groups, strict=True)]


def _about_bold(cells: Sequence[Sequence[Cell]], line: str) -> str:
    """What bold says: the best of a row or column, among those that were trained on the same images."""
    return f" Bold: the best mean of its {line}." if any(cell.best for row in cells for cell in row) else ""


def _of_the_same_data(groups: Sequence[Group]) -> list[Group]:
    groups = at_least_one(groups)
    if len(split_by_data(groups)) > 1:
        found = "; ".join(sorted({data_text(group) for group in groups}))
        raise RunError(
            "A table per class or class size needs runs on the same data with the same counts, but these differ: "
            f"{found}. Compare the runs of one data setting at a time."
        )
    return groups


#: What a record calls the errors, and how they are headed.
ERRORS = {
    "ece_before": "before calibration",
    "ece_default": "after, as predict gives them",
    "ece": "after, for the frequencies of the held-out images",
}


def calibration_errors(groups: Sequence[Group]) -> Table | None:
    """One row per setting whose runs were calibrated; None where none was, for want of held-out images."""
    rows: list[tuple[str | Cell, ...]] = [
        (label, *(_cell(group, name) for name in ERRORS))
        for group, label in zip(groups, distinct_labels(groups), strict=True)
        if any(map(_errors, group.results))
    ]
    if not rows:
        return None
    return table_of(
        "Expected calibration error of the probabilities on the test images in %",
        {"method": "method", **ERRORS},
        rows,
        measured=ERRORS,
        note="How far the probabilities of the predicted classes lie from the shares of them that are right, in the "
        "mean. They were calibrated on the held-out images. Without --prior, predict gives them for the class "
        "frequencies that the scores stand for.",
    )


def _cell(group: Group, name: str) -> Cell:
    return measured_cell(summarise(_errors(result).get(name) for result in group.results), runs=len(group.results))


def _errors(result: Result) -> dict[str, float]:
    """What the run has recorded of its calibration on the test images; nothing if it was not calibrated."""
    calibration = result.record.calibration
    return {} if calibration is None else calibration.test
