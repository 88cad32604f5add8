"""Accuracy along the imbalance ratio: of all classes, and of the larger and the smaller half of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import RunError
from ...report.figures import shortened
from ...report.results import Group, Result, data_parts, distinct_labels, group_results
from ...report.settings import comparable, setting_of
from .canvas import axis_labels, legend, line_handle, line_with_spread, log_axis, sheet, title
from .panels import KINDS, accuracy_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Metric -> what its panels are called.
PARTS = {"headline": "all classes", "major": "larger half", "minor": "smaller half"}
#: Characters for which there is room above a panel, and methods that a remark names.
TITLE, NAMED = 34, 5


@dataclass(frozen=True)
class Line:
    """Settings that differ in nothing but the ratio of the largest class to the smallest, by that ratio."""

    groups: tuple[Group, ...]

    @property
    def data(self) -> tuple[str, str]:
        """Source, with the classes if some were chosen, and kind of imbalance."""
        return _data(self.groups[0])

    @property
    def ratios(self) -> list[float]:
        return [_ratio(group) for group in self.groups]


def imbalance(results: Sequence[Result]) -> Figure:
    """Test accuracy of the last epoch along the ratio; a row of panels per data set and kind of imbalance."""
    lines = lines_along_ratio(results)
    rows = list(dict.fromkeys(line.data for line in lines))
    names = _names(lines)
    order = list(dict.fromkeys(names))
    figure, axes = sheet(len(rows), len(PARTS))
    several = len({source for source, _ in rows}) > 1
    for row, (source, kind) in zip(axes, rows, strict=True):
        mine = [
            (line, order.index(name)) for line, name in zip(lines, names, strict=True) if line.data == (source, kind)
        ]
        for axis, (metric, part) in zip(row, PARTS.items(), strict=True):
            title(axis, _title(source if several else "", KINDS.get(kind, kind), part))
            for line, number in mine:
                _draw(axis, line, metric, number)
            ratios = sorted({ratio for line, _ in mine for ratio in line.ratios})
            log_axis(axis, ratios, [_shown(ratio) for ratio in ratios])
        axis_labels(row[0], y=accuracy_name([group for line, _ in mine for group in line.groups]))
    for axis in axes[-1]:
        axis_labels(axis, "imbalance ratio")
    legend(figure, [line_handle(number) for number in range(len(order))], order)
    return figure


def remarks(results: Sequence[Result]) -> list[str]:
    """What is missing for lines, in a sentence for all that lack the same."""
    lines = lines_along_ratio(results)
    single: dict[tuple[str, str, str], list[str]] = {}
    for line, name in zip(lines, _names(lines), strict=True):
        if len(line.groups) == 1:
            single.setdefault((*line.data, _shown(line.ratios[0])), []).append(name)
    said = []
    for (source, kind, ratio), names in single.items():
        more = f" and {len(names) - NAMED} more" * (len(names) > NAMED)
        what = "there is a point and no line" if len(names) == 1 else "there are points and no lines"
        other = "--imbalance long_tailed or step and several --rho" if kind == "natural" else "other --rho too"
        said.append(
            f"{', '.join(names[:NAMED])}{more} on {source}, {KINDS.get(kind, kind).lower()}: all runs have ratio "
            f"{ratio}, so {what}; give runs with {other}"
        )
    return said


def lines_along_ratio(results: Sequence[Result]) -> list[Line]:
    """The runs as lines along the ratio, in the order of first appearance.

    Raises:
        RunError: if there are no runs, or several choices of images at one point.
    """
    found: dict[str, dict[float, Group]] = {}
    for group in group_results(results):
        points = found.setdefault(comparable(_common(group)), {})
        other = points.setdefault(_ratio(group), group)
        if other is not group:
            raise RunError(
                f"{group.label} at ratio {_ratio(group):g} was trained on several sets of images (data seeds "
                f"{other.data_seeds} and {group.data_seeds}). Give the runs of one of them."
            )
    if not found:
        raise RunError("There are no results to draw. Give at least one finished run.")
    return [Line(tuple(points[ratio] for ratio in sorted(points))) for points in found.values()]


def _common(group: Group) -> dict[str, Any]:
    """What the settings of one line share: everything but the ratio and the counts that follow from it."""
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


def _shown(ratio: float) -> str:
    return f"{round(ratio, 1):g}"


def _title(source: str, kind: str, part: str) -> str:
    if not source:
        return f"{kind}, {part}"
    whole = f"{source}, {kind.lower()}, {part}"
    return whole if len(whole) <= TITLE else f"{shortened(source, TITLE)}\n{kind}, {part}"


def _data(group: Group) -> tuple[str, str]:
    return data_parts(group)["source"], str(group.data["kind"])


def _names(lines: Sequence[Line]) -> list[str]:
    return distinct_labels([line.groups[0] for line in lines], shown_beside=("rho",), alike=_data)


def _draw(axis: Axes, line: Line, metric: str, number: int) -> None:
    found = [(ratio, group.statistic(metric)) for ratio, group in zip(line.ratios, line.groups, strict=True)]
    measured = [(ratio, statistic) for ratio, statistic in found if statistic is not None]
    means = [100 * statistic.mean for _, statistic in measured]
    spreads = [float("nan") if statistic.sd is None else 100 * statistic.sd for _, statistic in measured]
    line_with_spread(axis, [ratio for ratio, _ in measured], means, spreads, number)
