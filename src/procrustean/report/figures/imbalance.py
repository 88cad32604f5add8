"""Accuracy along the imbalance ratio: of all classes, and of the larger and the smaller half of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from procrustean.records.groups import Group, Result, data_parts, group_results
from procrustean.records.identity import setting_of
from procrustean.report.figures.along import Line, Number, accuracies, lines_along, points_alone
from procrustean.report.figures.panels import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def imbalance(results: Sequence[Result]) -> Figure:
    """Test accuracy of the last epoch along the ratio; a row of panels per data set and kind of imbalance."""
    return accuracies(RATIO, lines_along_ratio(results))


def remarks(results: Sequence[Result]) -> list[str]:
    """What is missing for lines, in a sentence for all that lack the same."""
    found = KINDS["natural"]
    return [
        f"{said}; give runs with {'--imbalance long_tailed or step and several --rho' * (kind == found)}"
        f"{'other --rho too' * (kind != found)}"
        for (_, kind, _), said in points_alone(RATIO, lines_along_ratio(results)).items()
    ]


def lines_along_ratio(results: Sequence[Result]) -> list[Line]:
    """The runs as lines along the ratio, each of settings that differ in nothing else."""
    return lines_along(RATIO, group_results(results))


def _common(group: Group) -> dict[str, Any]:
    """Everything but the ratio and the counts that follow from it."""
    setting = setting_of(group.results[0])
    return {
        **setting,
        "data": {name: value for name, value in setting["data"].items() if name not in ("rho", "counts")},
        "config": {name: value for name, value in setting["config"].items() if name != "rho"},
    }


def _ratio(group: Group) -> float:
    """The ratio that was asked for, or, of data as they were found, that of the counts."""
    rho = group.data.get("rho")
    return float(rho) if rho is not None else max(group.counts) / min(group.counts)


def _row(group: Group) -> tuple[str, str]:
    kind = str(group.data["kind"])
    return data_parts(group)["source"], KINDS.get(kind, kind)


RATIO = Number(
    name="imbalance ratio",
    setting="rho",
    of=_ratio,
    common=_common,
    row=_row,
    shown=lambda ratio: f"{round(ratio, 1):g}",
    logarithmic=True,
)
