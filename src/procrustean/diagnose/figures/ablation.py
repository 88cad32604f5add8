"""Accuracy along MFW's alpha, and along beta under both readings of its standard deviation (supplement)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import RunError
from ...report.figures import INK, MUTED
from ...report.results import Group, Result, group_results
from .canvas import COLOURS, MARKERS, axis_labels, legend, sheet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Test accuracy in % of the paper's table of alpha, at ratio 100: (source, kind) -> alpha -> accuracy.
PAPER_ALPHA = {
    ("cifar10", "long_tailed"): {0.1: 75.9, 0.2: 76.8, 0.5: 77.1, 1.0: 78.5, 5.0: 77.4},
    ("cifar10", "step"): {0.1: 73.3, 0.2: 74.3, 0.5: 75.2, 1.0: 77.6, 5.0: 80.1},
    ("cifar100", "long_tailed"): {0.1: 43.1, 0.2: 44.7, 0.5: 43.6, 1.0: 42.1, 5.0: 41.2},
    ("cifar100", "step"): {0.1: 40.8, 0.2: 42.6, 0.5: 44.0, 1.0: 46.5, 5.0: 46.9},
}
SOURCES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
SPREADS = ("geometric", "arithmetic")


@dataclass(frozen=True)
class Line:
    """Accuracies in % along one option, of one data setting."""

    source: str
    kind: str
    rho: float
    std: str
    counts: tuple[int, ...]
    points: tuple[tuple[float, float, float | None], ...]  # value of the option, mean, sample standard deviation

    @property
    def name(self) -> str:
        source = SOURCES.get(self.source, self.source)
        return f"{source}, {self.kind.replace('_', '-')}"


def lines_along(results: Sequence[Result], option: str) -> list[Line]:
    """The runs of MFW among the results as lines along `alpha` or `beta`, one for each setting of the data and std.

    Raises:
        RunError: if runs differ in anything else: a line would then mix two effects.
    """
    found: dict[tuple[str, str, float, str], dict[float, Group]] = {}
    for group in group_results(result for result in results if result.record["method"]["name"] == "mfw"):
        data, options = group.data, group.results[0].record["method"]["options"]
        key = (str(data["source"]), str(data["kind"]), float(data["rho"]), str(options.get("std", "geometric")))
        points = found.setdefault(key, {})
        value = _value(option, options, data)
        if value in points:
            raise RunError(
                f"two settings of MFW on {key[0]}, {key[1]} have {option} = {value:g} but differ otherwise; give only "
                f"runs that differ in {option}, std and their seeds"
            )
        points[value] = group
    if not found:
        raise RunError(f"there is no run of MFW among the results; train some with different --options {option}=...")
    return [
        Line(source, kind, rho, std, next(iter(points.values())).counts, _points(points))
        for (source, kind, rho, std), points in found.items()
    ]


def _names(lines: Sequence[Line], *, by_std: bool = True) -> list[str]:
    """What each line is called: its data, with ratio and standard deviation where lines of the same data differ."""
    names = []
    for line in lines:
        twins = [other for other in lines if other.name == line.name]
        ratio = f" \N{GREEK SMALL LETTER RHO}={line.rho:g}" * (len({twin.rho for twin in twins}) > 1)
        std = f", {line.std} std" * (by_std and len({twin.std for twin in twins}) > 1)
        names.append(line.name + ratio + std)
    return names


def remarks(results: Sequence[Result], option: str) -> list[str]:
    """What is missing for lines, and how to have it measured."""
    lines = lines_along(results, option)
    return [
        f"{name}: all runs have {option} = {line.points[0][0]:g}, so there is a point and no line; train MFW with "
        f"other values too: --options {option}=..."
        for line, name in zip(lines, _names(lines), strict=True)
        if len(line.points) == 1
    ]


def alpha(results: Sequence[Result]) -> Figure:
    """Test accuracy of the last epoch along alpha; the paper's numbers dotted where it has some."""
    from matplotlib.lines import Line2D

    lines = lines_along(results, "alpha")
    figure, ((axis,),) = sheet(1, 1, width=4.6, height=3.1)
    handles, names = [], _names(lines)
    for number, line in enumerate(lines):
        colour = _draw(axis, line, number)
        handles.append(Line2D([], [], color=colour, marker=MARKERS[number % len(MARKERS)], linewidth=1.8))
        published = PAPER_ALPHA.get((line.source, line.kind)) if line.rho == 100 else None
        if published:
            axis.plot(*zip(*published.items(), strict=True), color=colour, linestyle=(0, (1, 2)), linewidth=1.4)
    if any(axis_line.get_linestyle() != "-" for axis_line in axis.lines):
        handles.append(Line2D([], [], color=INK, linestyle=(0, (1, 2)), linewidth=1.4))
        names.append("as published, its epoch unknown")
    _log_axis(axis, sorted({point[0] for line in lines for point in line.points}))
    axis_labels(axis, r"$\alpha$", "test accuracy (%)")
    legend(figure, handles, names, columns=2)
    return figure


def beta(results: Sequence[Result]) -> Figure:
    """The weight function s(N) for each beta above, the accuracy along beta below; one column per reading of gamma."""
    from matplotlib.lines import Line2D

    lines = lines_along(results, "beta")
    columns = [std for std in SPREADS if any(line.std == std for line in lines)]
    figure, axes = sheet(2, len(columns), width=3.4, height=2.5)
    named = {
        (line.source, line.kind, line.rho): name for line, name in zip(lines, _names(lines, by_std=False), strict=True)
    }
    kinds = sorted(named)
    values = sorted({point[0] for line in lines for point in line.points})
    for column, std in enumerate(columns):
        mine = [line for line in lines if line.std == std]
        title(axes[0][column], f"{std} standard deviation")
        _weight_function(axes[0][column], mine, std, values)
        for line in mine:
            _draw(axes[1][column], line, kinds.index((line.source, line.kind, line.rho)))
        _log_axis(axes[1][column], values)
        axis_labels(axes[1][column], r"$\beta$")
    axis_labels(axes[0][0], y="strength s(N)")
    axis_labels(axes[1][0], y="test accuracy (%)")
    handles = [
        Line2D([], [], color=COLOURS[n % len(COLOURS)], marker=MARKERS[n % len(MARKERS)], linewidth=1.8)
        for n in range(len(kinds))
    ]
    legend(figure, handles, [named[kind] for kind in kinds], columns=2)
    return figure


def _value(option: str, options: Mapping[str, Any], data: Mapping[str, Any]) -> float:
    given = options.get(option)
    if given is not None:
        return float(given)
    from ...methods.mfw import ALPHA
    from ...mfw import DEFAULT_ALPHA, DEFAULT_BETA

    kind = data["kind"]
    if kind not in DEFAULT_ALPHA:
        raise RunError(f"a run on {data['source']} left {option} to the counts; give it in --options {option}=...")
    if option == "alpha":
        return ALPHA.get((str(data["source"]), kind), DEFAULT_ALPHA[kind])
    return DEFAULT_BETA[kind]


def _points(groups: Mapping[float, Group]) -> tuple[tuple[float, float, float | None], ...]:
    points = []
    for value, group in sorted(groups.items()):
        accuracy = group.statistic("headline")
        assert accuracy is not None
        points.append((value, 100 * accuracy.mean, None if accuracy.sd is None else 100 * accuracy.sd))
    return tuple(points)


def _draw(axis: Axes, line: Line, number: int) -> str:
    colour = COLOURS[number % len(COLOURS)]
    values, means, spreads = zip(*line.points, strict=True)
    errors = None if any(spread is None for spread in spreads) else spreads
    axis.errorbar(
        values,
        means,
        yerr=errors,
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        linewidth=1.8,
        elinewidth=1,
        zorder=3,
    )
    return colour


def _log_axis(axis: Axes, values: Sequence[float]) -> None:
    axis.set_xscale("log")
    axis.set_xticks(list(values), [f"{value:g}" for value in values])
    axis.minorticks_off()


def _weight_function(axis: Axes, lines: Sequence[Line], std: str, values: Sequence[float]) -> None:
    """s of Eq. 7 over the class sizes of a long-tailed setting, if there is one; a curve per beta."""
    from matplotlib import colormaps

    from ...mfw import strength_of

    line = next((line for line in lines if line.kind == "long_tailed"), lines[0])
    shades = colormaps["viridis"]
    for number, value in enumerate(values):
        colour = shades(0.85 * number / max(len(values) - 1, 1))
        strengths = strength_of(line.counts, beta=value, std=std)  # type: ignore[arg-type]
        axis.plot(line.counts, strengths, color=colour, marker=".", linewidth=1.3, label=f"β = {value:g}")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.minorticks_off()
    axis.set_ylim(-0.02, 0.55)
    axis_labels(axis, f"training images N of a class ({line.name})")
    axis.legend(frameon=False, fontsize=7.5, labelcolor=MUTED, loc="upper left", handlelength=1.2)
