"""What the page of a report shows, as plain data for its script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from procrustean.balance.metrics import class_groups
from procrustean.base.table_formats import Table, readable, to_csv, to_latex
from procrustean.base.version import __version__
from procrustean.data.describe import printable
from procrustean.records.groups import Group, by_options, group_results, split_by_data
from procrustean.records.run_labels import data_text, distinct_labels
from procrustean.records.run_record import Result, Selection
from procrustean.records.several_runs import measured_by
from procrustean.report.class_tables import by_class, by_class_size, calibration_errors, per_class
from procrustean.report.comparison_table import HEADLINES, SELECTIONS, at_least_one, comparison
from procrustean.report.curves import class_curves, gradient_layers, overall_curves, shown_percent
from procrustean.report.findings import Rivals, verdicts_of
from procrustean.report.look_alikes import Pictured, look_alikes, pictured_groups
from procrustean.report.mistakes import ExampleFinder, Mistake, picture, summed_confusion, worst_confusions
from procrustean.report.own_image_tables import intervals, trials_table
from procrustean.report.run_settings import configuration, run_rows

if TYPE_CHECKING:
    from procrustean.data.imageset import Splits

LARGEST_MATRIX = 30  # classes; beyond, only the worst confusions are shown
MOST_UNFOLDED = 20  # classes whose table is shown without being asked for
WORST_SHOWN = 12

#: Quantities per class along the epochs: title, unit, and the curves they consist of with what sets these apart.
QUANTITIES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Test accuracy", "%", (("test_recall", ""),)),
    ("Training accuracy", "%", (("train_recall", ""),)),
    ("Classification ratio", "", (("classification_ratio", ""),)),
    ("Gradient norm", "", (("gradient_norm_on", "mixing on"), ("gradient_norm_off", "mixing off"))),
    ("Feature deviation", "", (("feature_deviation", ""),)),
)


def page_data(results: Iterable[Result], *, finder: ExampleFinder | None = None) -> dict[str, Any]:
    """Everything the page shows."""
    groups = at_least_one(by_options(group_results(results)))
    blocks = split_by_data(groups)
    return {
        "title": _title(groups),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "runs": sum(len(group.results) for group in groups),
        "selections": [{"key": key, "title": title} for key, title in SELECTIONS.items()],
        "quantities": [
            {"title": title, "unit": unit, "parts": [{"key": key, "title": part} for key, part in parts]}
            for title, unit, parts in QUANTITIES
        ],
        "settings": [_setting(block, finder) for block in blocks],
    }


def _title(groups: Sequence[Group]) -> str:
    labels = list(dict.fromkeys(group.label for group in groups))
    sources = ", ".join(dict.fromkeys(group.data.source for group in groups))
    named = labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
    if len(labels) > 3:
        named = f"{len(labels)} methods"
    # Where a method was trained in several ways on the same data, each has a row and a curve.
    ways = max(len(block) for block in split_by_data(groups))
    if ways > len(labels):
        named = f"{ways} settings of {named}"
    return f"{named} on {sources}"


def _setting(groups: Sequence[Group], finder: ExampleFinder | None) -> dict[str, Any]:
    """All groups of one data setting."""
    first = groups[0]
    labels = distinct_labels(groups)
    named = list(zip(labels, groups, strict=True))
    members = class_groups(first.counts)
    return {
        "name": data_text(first),
        "headline": HEADLINES[first.headline],
        "classes": list(first.classes),
        "counts": list(first.counts),
        "sizes": [
            next(name for name in ("many", "medium", "few") if members[name][index])
            for index in range(len(first.classes))
        ],
        "remarks": list(dict.fromkeys(remark for group in groups for remark in _remarks(group))),
        "train": sum(first.counts),
        "test": first.results[0].record.selections.last.metrics.images,
        "matrix": len(first.classes) <= LARGEST_MATRIX,
        "alike": [] if finder is None else _alike(finder.own_images(first)),
        "methods": [_method(group, label, named, finder) for label, group in named],
        "unfolded": len(first.classes) <= MOST_UNFOLDED,
        "tables": _tables(groups),
        "configuration": configuration(groups),
        "provenance": run_rows(groups, labels),
    }


def _remarks(group: Group) -> list[str]:
    """Whose the results of own images are, and why they may be too good."""
    whose = [measured_by(result.path.parent) for result in group.results if result.path is not None]
    measured = [result.record.image_measures for result in group.results]
    cautions = [caution for measures in measured if measures is not None for caution in measures.cautions]
    return [*filter(None, whose), *cautions]


def _tables(groups: Sequence[Group]) -> dict[str, Any]:
    """The tables of a setting; those of classes under each selection.

    A single method has its recall and its precision beside each other, several have a table of each; for many classes,
    which take room, that of the recall alone.
    """
    calibration = calibration_errors(groups)
    results = [result for group in groups for result in group.results]
    sure, tried = intervals(results), trials_table(results)
    alone = len(groups) == 1
    return {
        "comparison": _table(comparison(groups), "comparison"),
        "calibration": calibration and _table(calibration, "calibration"),
        "intervals": sure and _table(sure, "intervals"),
        "trials": tried and _table(tried, "trials"),
        "sizes": {name: _table(by_class_size(groups, name), f"class-sizes-{name}") for name in SELECTIONS},
        "classes": {
            name: _table(by_class(groups[0], name) if alone else per_class(groups, name), f"classes-{name}")
            for name in SELECTIONS
        },
        "precision": None
        if alone or len(groups[0].classes) > MOST_UNFOLDED
        else {name: _table(per_class(groups, name, "precision"), f"precision-{name}") for name in SELECTIONS},
    }


def _method(group: Group, label: str, rivals: Rivals, finder: ExampleFinder | None) -> dict[str, Any]:
    matrices = {name: summed_confusion(group, name) for name in SELECTIONS}
    worst = {name: [] if m is None else worst_confusions(m, WORST_SHOWN) for name, m in matrices.items()}
    examples = None if finder is None else finder.find(group, worst["last"])
    small = len(group.classes) <= LARGEST_MATRIX
    return {
        "label": label,
        "seeds": list(group.seeds),
        "epochs": group.epochs,
        "selections": {name: _selected(group, name) for name in SELECTIONS},
        "overall": {
            name: curve.to_json(percent=name not in ("loss", "lr")) for name, curve in overall_curves(group).items()
        },
        "perClass": {
            name: curve.to_json(percent=name.endswith("recall")) for name, curve in class_curves(group).items()
        },
        "gradientsAt": [{"layer": layer, "epochs": epochs} for layer, epochs in gradient_layers(group).items()],
        "confusion": {
            name: matrix.tolist() if matrix is not None and small else None for name, matrix in matrices.items()
        },
        "worst": {
            name: [{"true": c.true, "predicted": c.predicted, "images": c.images, "of": c.of} for c in pairs]
            for name, pairs in worst.items()
        },
        "examples": None
        if examples is None
        else {
            "reason": examples.reason,
            "runs": list(examples.runs),
            "pictures": {f"{true}-{predicted}": uris for (true, predicted), uris in examples.pictures.items()},
        },
        "mistakes": [] if finder is None else [_mistake(one) for one in finder.mistakes(group)],
        "verdicts": verdicts_of(group, rivals),
    }


def _alike(splits: Splits | None) -> list[dict[str, Any]]:
    """Images that may be the same, or belong together, for the reader to look at."""
    if splits is None:
        return []
    likely = "" if splits.likely is None else splits.likely.how
    sets = {
        "Alike on two sides of a split: if they are the same, results are too good": look_alikes(splits),
        f"Probably of one group, by {likely}: a group belongs on one side of a split": pictured_groups(splits),
    }
    return [
        {"title": title, "sets": [[_pictured(image) for image in images] for images in alike]}
        for title, alike in sets.items()
        if alike
    ]


def _pictured(image: Pictured) -> dict[str, str]:
    texts = {name: printable(getattr(image, name)) for name in ("file", "side", "label")}
    return {**texts, "picture": picture(image.pixels)}


def _mistake(one: Mistake) -> dict[str, Any]:
    """File names may hold bytes that are no text, which JSON and a page cannot."""
    texts = {name: printable(getattr(one, name)) for name in ("file", "label", "answer")}
    return {**texts, "probability": shown_percent(one.probability), "picture": one.picture}


def _selected(group: Group, selection: Selection) -> dict[str, Any] | None:
    """The headline under one selection, run by run and together, and the recall of every class. In percent."""
    statistic = group.statistic("headline", selection)
    if statistic is None:
        return None
    runs = [
        {
            "seed": result.repeat[0],
            "epoch": chosen.epoch + 1,
            "value": shown_percent(chosen.metrics.headline_value),
        }
        for result in group.results
        if (chosen := getattr(result.record.selections, selection)) is not None
    ]
    recall = group.recall(selection)
    return {
        "mean": shown_percent(statistic.mean),
        "sd": shown_percent(statistic.sd),
        "runs": runs,
        "recall": [one and shown_percent(one.mean) for one in recall],
        "recallSd": None if statistic.sd is None else [one and shown_percent(one.sd) for one in recall],
    }


def _table(table: Table, name: str) -> dict[str, Any]:
    shown = readable(table)
    return {
        "title": table.title,
        "note": table.note,
        "columns": [{"heading": column.heading, "numeric": column.numeric} for column in shown.columns],
        "rows": [[{"text": cell.text, "best": cell.best} for cell in row] for row in shown.rows],
        "name": name,
        "csv": to_csv(table),
        "latex": to_latex(table),
    }
