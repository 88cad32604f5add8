"""How far the probabilities of runs are right, as a table: the expected calibration error on the test images."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.base.table_formats import Cell, Column, Table, measured_cell
from procrustean.records.groups import Group, Result, distinct_labels, summarise

#: What a record calls the errors, and how they are headed.
ERRORS = {
    "ece_before": "before calibration",
    "ece_default": "after, as predict gives them",
    "ece": "after, for the frequencies of the held-out images",
}


def calibration_errors(groups: Sequence[Group]) -> Table | None:
    """One row per setting whose runs were calibrated; None where none was, for want of held-out images."""
    rows = [
        (Cell(label), *(_cell(group, name) for name in ERRORS))
        for group, label in zip(groups, distinct_labels(groups), strict=True)
        if any(map(_errors, group.results))
    ]
    if not rows:
        return None
    return Table(
        title="Expected calibration error of the probabilities on the test images in %",
        columns=(
            Column("method", "method", numeric=False),
            *(Column(name, heading, measured=True) for name, heading in ERRORS.items()),
        ),
        rows=tuple(rows),
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
