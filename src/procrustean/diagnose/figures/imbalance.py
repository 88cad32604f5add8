"""Accuracy along the imbalance ratio: of all classes, and of the larger and the smaller half of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import RunError
from ...report.results import Group, Result, distinct_labels, group_results
from ...report.settings import comparable, setting_of
from .canvas import COLOURS, MARKERS, axis_labels, legend, log_axis, sheet, title
from .panels import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Metric -> what its panels are called.
PARTS = {"headline": "all classes", "major": "larger half", "minor": "smaller half"}


@dataclass(frozen=True)
class Line:
    """Settings that differ in nothing but the ratio of the largest class to the smallest, by that ratio."""

    groups: tuple[Group, ...]

    @property
    def data(self) -> tuple[str, str]:
        """Source and kind of imbalance."""
        data = self.groups[0].data
        return str(data["source"]), str(data["kind"])

    @property
    def ratios(self) -> list[float]:
        return [_ratio(group) for group in self.groups]


def imbalance(results: Sequence[Result]) -> Figure:
    """Test accuracy of the last epoch along the ratio; a row of panels per data set and kind of imbalance."""
    from matplotlib.lines import Line2D

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
            kind_name = KINDS.get(kind, kind)
            title(axis, f"{source}, {kind_name.lower()}, {part}" if several else f"{kind_name}, {part}")
            for line, number in mine:
                _draw(axis, line, metric, number)
            log_axis(axis, sorted({ratio for line, _ in mine for ratio in line.ratios}))
        axis_labels(row[0], y="test accuracy (%)")
    for axis in axes[-1]:
        axis_labels(axis, "imbalance ratio")
    handles = [
        Line2D([], [], color=COLOURS[n % len(COLOURS)], marker=MARKERS[n % len(MARKERS)], linewidth=1.8)
        for n in range(len(order))
    ]
    legend(figure, handles, order)
    return figure


def remarks(results: Sequence[Result]) -> list[str]:
    """What is missing for lines."""
    lines = lines_along_ratio(results)
    return [
        f"{name} on {line.data[0]}, {line.data[1].replace('_', '-')}: all runs have ratio {line.ratios[0]:g}, so there "
        "is a point and no line; give runs with other --rho too"
        for line, name in zip(lines, _names(lines), strict=True)
        if len(line.groups) == 1
    ]


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


def _names(lines: Sequence[Line]) -> list[str]:
    firsts = [line.groups[0] for line in lines]
    return distinct_labels(
        firsts, shown_beside=("rho",), alike=lambda group: (group.data["source"], group.data["kind"])
    )


def _draw(axis: Axes, line: Line, metric: str, number: int) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    found = [(ratio, group.statistic(metric)) for ratio, group in zip(line.ratios, line.groups, strict=True)]
    measured = [(ratio, statistic) for ratio, statistic in found if statistic is not None]
    axis.errorbar(
        [ratio for ratio, _ in measured],
        [100 * statistic.mean for _, statistic in measured],
        yerr=[float("nan") if statistic.sd is None else 100 * statistic.sd for _, statistic in measured],
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=1.8,
        elinewidth=1,
        zorder=3,
    )
