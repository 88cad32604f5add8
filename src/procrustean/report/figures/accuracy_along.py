"""Accuracy along the imbalance ratio or any option: of all classes, of the larger and of the smaller half of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from procrustean.base.errors import ConfigError, RunError, did_you_mean
from procrustean.methods.mfw import usual_value
from procrustean.records.groups import Group, group_results
from procrustean.records.identity import Setting, comparable, setting_of
from procrustean.records.run_labels import data_parts, distinct_labels
from procrustean.records.run_record import Result
from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import Axes, Figure
from procrustean.report.figures.panels import KINDS, accuracy_name

#: Metric -> what its panels are called.
PARTS = {"headline": "all classes", "major": "larger half", "minor": "smaller half"}
#: Characters for which there is room above a panel, and methods that a remark names.
TITLE, NAMED = 34, 5
#: Positive values that span so many times the least of them are drawn on a logarithmic axis.
WIDE = 10

Say = Callable[[str], None]


@dataclass(frozen=True)
class Number:
    """What lines run along."""

    name: str  # in words
    setting: str  # by which name it is a setting of runs
    of: Callable[[Group], float]
    common: Callable[[Group], Setting]  # all that the settings of one line share: everything but this number
    row: Callable[[Group], tuple[str, str]]  # data and kind of imbalance, which have a row of panels
    shown: Callable[[float], str] = "{:g}".format
    logarithmic: bool = False  # whatever the values are


@dataclass(frozen=True)
class Line:
    """Settings that differ in nothing but a number, in the order of it."""

    groups: tuple[Group, ...]
    values: tuple[float, ...]
    row: tuple[str, str]


def imbalance(results: Sequence[Result], *, say: Say) -> Figure:
    """Test accuracy of the last epoch along the ratio; a row of panels per data set and kind of imbalance."""
    lines = lines_along_ratio(results)
    _say_points(RATIO, lines, "--imbalance long_tailed or step with several --rho", say)
    return _accuracies(RATIO, lines)


def option(results: Sequence[Result], *, say: Say, over: str | None = None) -> Figure:
    """Test accuracy of the last epoch along an option; a row of panels per data set and imbalance.

    Args:
        results: runs of any method, also of one's own; those in which the option is no number are left out.
        over: the option.
    """
    known = sorted({name for result in results for name in _options(result) if _value(result, name) is not None})
    if over is None:
        raise ConfigError(
            f"the figure `option` is drawn along an option of a method; name it: --over NAME. {did_you_mean('', known)}"
        )
    having = [result for result in results if _value(result, over) is not None]
    if not having:
        raise RunError(f"there is no run with a number for the option {over!r}. {did_you_mean(over, known)}")
    if left_out := [result.place for result in results if _value(result, over) is None]:
        say(f"left out {', '.join(left_out)}: there {over} is no number; give it: --options {over}=...")
    lines = lines_along_option(having, over)
    _say_points(_number(over), lines, f"--options {over}=...", say)
    return _accuracies(_number(over), lines)


def lines_along_ratio(results: Sequence[Result]) -> list[Line]:
    """The runs as lines along the ratio, each of settings that differ in nothing else."""
    return _lines_along(RATIO, group_results(results))


def lines_along_option(results: Sequence[Result], option: str) -> list[Line]:
    """Runs in which the option is a number as lines along it, each of settings that differ in nothing else."""
    groups = group_results(results, setting=lambda result: _setting_with_value(result, option))
    return _lines_along(_number(option), groups)


def _lines_along(number: Number, groups: Sequence[Group]) -> list[Line]:
    """The settings as lines, in the order of first appearance.

    Raises:
        RunError: if there are several choices of images at one point.
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
    lines = []
    for points in found.values():
        values = tuple(sorted(points))
        lines.append(Line(tuple(points[value] for value in values), values, number.row(points[values[0]])))
    return lines


def _names_of(number: Number, lines: Sequence[Line]) -> list[str]:
    """What lines are called; those of one row differ."""
    return distinct_labels([line.groups[0] for line in lines], shown_beside=(number.setting,), alike=number.row)


def _accuracies(number: Number, lines: Sequence[Line]) -> Figure:
    """Test accuracy of the last epoch along the number; a row of panels per data set and kind of imbalance."""
    rows = list(dict.fromkeys(line.row for line in lines))
    names = _names_of(number, lines)
    order = list(dict.fromkeys(names))
    figure, axes = canvas.sheet(len(rows), len(PARTS))
    several = len({source for source, _ in rows}) > 1
    for panels, (source, kind) in zip(axes, rows, strict=True):
        mine = [
            (line, order.index(name)) for line, name in zip(lines, names, strict=True) if line.row == (source, kind)
        ]
        values = sorted({value for line, _ in mine for value in line.values})
        for axis, (metric, part) in zip(panels, PARTS.items(), strict=True):
            canvas.title(axis, _title(source if several else "", kind, part))
            for line, index in mine:
                _draw(axis, line, metric, index)
            logarithmic = number.logarithmic or (values[0] > 0 and values[-1] >= WIDE * values[0])
            canvas.value_axis(axis, values, list(map(number.shown, values)), logarithmic=logarithmic)
        canvas.axis_labels(panels[0], y=accuracy_name([group for line, _ in mine for group in line.groups]))
    for axis in axes[-1]:
        canvas.axis_labels(axis, number.name)
    canvas.legend(figure, [canvas.line_handle(index) for index in range(len(order))], order)
    return figure


def _say_points(number: Number, lines: Sequence[Line], how: str, say: Say) -> None:
    """Names the lines of a single point."""
    names = [
        f"{name} on {line.row[0]}"
        for line, name in zip(lines, _names_of(number, lines), strict=True)
        if len(line.groups) == 1
    ]
    if names:
        more = f" and {len(names) - NAMED} more" * (len(names) > NAMED)
        say(
            f"points and no lines, of one {number.name} each: {', '.join(names[:NAMED])}{more}; train "
            f"with other values too: {how}"
        )


def _small_first(text: str) -> str:
    """A text in the middle of a sentence: of what has capital letters further on, none is lost."""
    return text[:1].lower() + text[1:]


def _title(source: str, kind: str, part: str) -> str:
    if not source:
        return f"{kind}, {part}"
    whole = f"{source}, {_small_first(kind)}, {part}"
    return whole if len(whole) <= TITLE else f"{canvas.shortened(source, TITLE)}\n{kind}, {part}"


def _draw(axis: Axes, line: Line, metric: str, number: int) -> None:
    found = [(value, group.statistic(metric)) for value, group in zip(line.values, line.groups, strict=True)]
    measured = [(value, statistic) for value, statistic in found if statistic is not None]
    means = [100 * statistic.mean for _, statistic in measured]
    spreads = [float("nan") if statistic.sd is None else 100 * statistic.sd for _, statistic in measured]
    canvas.line_with_spread(axis, [value for value, _ in measured], means, spreads, number)


def _all_but_the_ratio(group: Group) -> Setting:
    """Everything but the ratio and the counts that follow from it."""
    setting = setting_of(group.results[0])
    return replace(
        setting,
        data=replace(setting.data, rho=None, counts=[]),
        config={**setting.config, "rho": None},
    )


def _ratio(group: Group) -> float:
    """The ratio that was asked for, or, of data as they were found, that of the counts."""
    return group.data.rho


def _kind(group: Group) -> tuple[str, str]:
    kind = group.data.kind
    return data_parts(group)["source"], KINDS.get(kind, kind)


RATIO = Number(
    name="imbalance ratio",
    setting="rho",
    of=_ratio,
    common=_all_but_the_ratio,
    row=_kind,
    shown=lambda ratio: f"{round(ratio, 1):g}",
    logarithmic=True,
)


def _options(result: Result) -> dict[str, Any]:
    return result.record.method.options


def _value(result: Result, option: str) -> float | None:
    value = _options(result).get(option)
    if value is None and result.record.method.name == "mfw":
        return usual_value(option, result.data.source, result.data.kind)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _setting_with_value(result: Result, option: str) -> Setting:
    """The setting of a run with the value of the option, whether it was given or is the default."""
    setting = setting_of(result)
    return replace(setting, options={**setting.options, option: _value(result, option)})


def _number(option: str) -> Number:
    def of(group: Group) -> float:
        value = _value(group.results[0], option)
        assert value is not None
        return value

    def common(group: Group) -> Setting:
        setting = setting_of(group.results[0])
        # Without the label, which may name the option.
        return replace(setting, label="", options={**setting.options, option: None})

    return Number(name=option, setting=option, of=of, common=common, row=_kind_and_ratio)


def _kind_and_ratio(group: Group) -> tuple[str, str]:
    parts, kind = data_parts(group), group.data.kind
    return parts["source"], " ".join(filter(None, (KINDS.get(kind, kind), parts.get("rho"))))
