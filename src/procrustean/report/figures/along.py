"""Accuracy along a number in which runs differ: of all classes, and of the larger and the smaller half of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import RunError
from procrustean.records.groups import Group, distinct_labels
from procrustean.records.identity import comparable
from procrustean.report.figures.canvas import (
    axis_labels,
    legend,
    line_handle,
    line_with_spread,
    sheet,
    title,
    value_axis,
)
from procrustean.report.figures.panels import accuracy_name
from procrustean.report.page_figures import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Metric -> what its panels are called.
PARTS = {"headline": "all classes", "major": "larger half", "minor": "smaller half"}
#: Characters for which there is room above a panel, and methods that a remark names.
TITLE, NAMED = 34, 5
#: Positive values that span so many times the least of them are drawn on a logarithmic axis.
WIDE = 10


@dataclass(frozen=True)
class Number:
    """What lines run along."""

    name: str  # in words
    setting: str  # by which name it is a setting of runs
    of: Callable[[Group], float]
    common: Callable[[Group], Any]  # all that the settings of one line share: everything but this number
    row: Callable[[Group], tuple[str, str]]  # data and kind of imbalance, which have a row of panels
    shown: Callable[[float], str] = "{:g}".format
    logarithmic: bool = False  # whatever the values are


@dataclass(frozen=True)
class Line:
    """Settings that differ in nothing but a number, in the order of it."""

    groups: tuple[Group, ...]
    values: tuple[float, ...]
    row: tuple[str, str]


def lines_along(number: Number, groups: Sequence[Group]) -> list[Line]:
    """The settings as lines, in the order of first appearance.

    Raises:
        RunError: if there are no runs, or several choices of images at one point.
    """
    found: dict[str, dict[float, Group]] = {}
    for group in groups:
        points = found.setdefault(comparable(number.common(group)), {})
        other = points.setdefault(number.of(group), group)
        if other is not group:
            raise RunError(
                f"{group.label} at {number.name} {number.of(group):g} was trained on several sets of images (data "
                f"seeds {other.data_seeds} and {group.data_seeds}). Give the runs of one of them."
            )
    if not found:
        raise RunError("There are no results to draw. Give at least one finished run.")
    lines = []
    for points in found.values():
        values = tuple(sorted(points))
        lines.append(Line(tuple(points[value] for value in values), values, number.row(points[values[0]])))
    return lines


def names_of(number: Number, lines: Sequence[Line]) -> list[str]:
    """What lines are called; those of one row differ."""
    return distinct_labels([line.groups[0] for line in lines], shown_beside=(number.setting,), alike=number.row)


def accuracies(number: Number, lines: Sequence[Line]) -> Figure:
    """Test accuracy of the last epoch along the number; a row of panels per data set and kind of imbalance."""
    rows = list(dict.fromkeys(line.row for line in lines))
    names = names_of(number, lines)
    order = list(dict.fromkeys(names))
    figure, axes = sheet(len(rows), len(PARTS))
    several = len({source for source, _ in rows}) > 1
    for panels, (source, kind) in zip(axes, rows, strict=True):
        mine = [
            (line, order.index(name)) for line, name in zip(lines, names, strict=True) if line.row == (source, kind)
        ]
        values = sorted({value for line, _ in mine for value in line.values})
        for axis, (metric, part) in zip(panels, PARTS.items(), strict=True):
            title(axis, _title(source if several else "", kind, part))
            for line, index in mine:
                _draw(axis, line, metric, index)
            logarithmic = number.logarithmic or (values[0] > 0 and values[-1] >= WIDE * values[0])
            value_axis(axis, values, list(map(number.shown, values)), logarithmic=logarithmic)
        axis_labels(panels[0], y=accuracy_name([group for line, _ in mine for group in line.groups]))
    for axis in axes[-1]:
        axis_labels(axis, number.name)
    legend(figure, [line_handle(index) for index in range(len(order))], order)
    return figure


def points_alone(number: Number, lines: Sequence[Line]) -> dict[tuple[str, str, str], str]:
    """Lines of a single point, by data, kind of imbalance and value: their names, and that they are no lines."""
    single: dict[tuple[str, str, str], list[str]] = {}
    for line, name in zip(lines, names_of(number, lines), strict=True):
        if len(line.groups) == 1:
            single.setdefault((*line.row, number.shown(line.values[0])), []).append(name)
    said = {}
    for (source, kind, value), names in single.items():
        more = f" and {len(names) - NAMED} more" * (len(names) > NAMED)
        what = "there is a point and no line" if len(names) == 1 else "there are points and no lines"
        said[source, kind, value] = (
            f"{', '.join(names[:NAMED])}{more} on {source}, {small_first(kind)}: all runs have {number.name} "
            f"{value}, so {what}"
        )
    return said


def small_first(text: str) -> str:
    """A text in the middle of a sentence: of what has capital letters further on, none is lost."""
    return text[:1].lower() + text[1:]


def _title(source: str, kind: str, part: str) -> str:
    if not source:
        return f"{kind}, {part}"
    whole = f"{source}, {small_first(kind)}, {part}"
    return whole if len(whole) <= TITLE else f"{shortened(source, TITLE)}\n{kind}, {part}"


def _draw(axis: Axes, line: Line, metric: str, number: int) -> None:
    found = [(value, group.statistic(metric)) for value, group in zip(line.values, line.groups, strict=True)]
    measured = [(value, statistic) for value, statistic in found if statistic is not None]
    means = [100 * statistic.mean for _, statistic in measured]
    spreads = [float("nan") if statistic.sd is None else 100 * statistic.sd for _, statistic in measured]
    line_with_spread(axis, [value for value, _ in measured], means, spreads, number)
