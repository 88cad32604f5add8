"""Accuracy along MFW's alpha, and along beta under both readings of its standard deviation (supplement)."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.balance.mfw_module import strength_of
from procrustean.methods.mfw import SAME_POINT, furthest_apart
from procrustean.paper.mfw_lines import SPREADS, Line, lines_along
from procrustean.paper.printed_numbers import paper_numbers
from procrustean.records.run_record import Result
from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import INK, MUTED, Axes, Figure
from procrustean.report.figures.panels import accuracy_name

#: What the markers are that are not filled.
SHARED = "same strengths, hence the same runs, as a filled marker"


def _names(lines: Sequence[Line], *, by_std: bool = True) -> list[str]:
    """What each line is called: its data, with ratio and standard deviation where lines of the same data differ."""
    names = []
    for line in lines:
        twins = [other for other in lines if other.name == line.name]
        ratio = f" \N{GREEK SMALL LETTER RHO}={line.rho:g}" if len({twin.rho for twin in twins}) > 1 else ""
        std = f", {line.std} std" * (by_std and len({twin.std for twin in twins}) > 1)
        names.append(line.name + ratio + std)
    return names


def alpha(results: Sequence[Result]) -> Figure:
    """Test accuracy of the last epoch along alpha; the paper's numbers dotted where it has some."""
    lines = lines_along(results, "alpha")
    figure, ((axis,),) = canvas.sheet(1, 1, width=4.6, height=3.1)
    handles, names = [], _names(lines)
    for number, line in enumerate(lines):
        colour = _draw(axis, line, number)
        handles.append(canvas.line_handle(number))
        if published := _published(line):
            axis.plot(*zip(*published.items(), strict=True), color=colour, linestyle=(0, (1, 2)), linewidth=1.4)
    if any(_published(line) for line in lines):
        handles.append(canvas.line_key(INK, linestyle=(0, (1, 2)), linewidth=1.4))
        names.append("as published, its epoch unknown")
    canvas.value_axis(axis, sorted({point.value for line in lines for point in line.points}))
    canvas.axis_labels(axis, r"$\alpha$", accuracy_name([point.group for line in lines for point in line.points]))
    canvas.legend(figure, handles, names, columns=2)
    return figure


def beta(results: Sequence[Result]) -> Figure:
    """The weight function s(N) for each beta above, the accuracy along beta below; one column per reading of gamma."""
    lines = lines_along(results, "beta")
    columns = [std for std in SPREADS if any(line.std == std for line in lines)]
    figure, axes = canvas.sheet(2, len(columns), width=3.4, height=2.5)
    named = {
        (line.source, line.kind, line.rho): name for line, name in zip(lines, _names(lines, by_std=False), strict=True)
    }
    kinds = sorted(named)
    values = sorted({point.value for line in lines for point in line.points})
    for column, std in enumerate(columns):
        mine = [line for line in lines if line.std == std]
        canvas.title(axes[0][column], f"{std} standard deviation")
        _weight_function(axes[0][column], mine, values)
        for line in mine:
            _draw(axes[1][column], line, kinds.index((line.source, line.kind, line.rho)))
        canvas.value_axis(axes[1][column], values)
        canvas.axis_labels(axes[1][column], r"$\beta$")
    canvas.axis_labels(axes[0][0], y="strength s(N)")
    canvas.axis_labels(axes[1][0], y=accuracy_name([point.group for line in lines for point in line.points]))
    handles = [canvas.line_handle(number) for number in range(len(kinds))]
    names = [named[kind] for kind in kinds]
    if any(not point.trained for line in lines for point in line.points):
        handles.append(canvas.line_key(MUTED, marker="o", markerfacecolor="white", linestyle="none"))
        names.append(SHARED)
    canvas.legend(figure, handles, names, columns=2)
    return figure


def _published(line: Line) -> dict[float, float]:
    """The paper's accuracies along alpha for the data of a line."""
    column = f"{line.source}-{'lt' if line.kind == 'long_tailed' else line.kind}{line.rho or 0:g}"
    own = (number for number in paper_numbers() if (number.table, number.column) == ("alpha", column))
    return {float(number.row.removeprefix("alpha=")): number.value for number in own}


def _draw(axis: Axes, line: Line, number: int) -> str:
    """Draw a line with the spread over the seeds; returns its colour. Points without a run of their own are hollow."""
    values, means = [point.value for point in line.points], [point.mean for point in line.points]
    spreads = [point.sd if point.trained and point.sd is not None else float("nan") for point in line.points]
    colour, marker = canvas.line_with_spread(axis, values, means, spreads, number)
    shared = [point for point in line.points if not point.trained]
    axis.plot(
        [point.value for point in shared],
        [point.mean for point in shared],
        color=colour,
        marker=marker,
        markerfacecolor="white",
        markersize=5,
        linestyle="none",
        zorder=4,
    )
    return colour


def _weight_function(axis: Axes, lines: Sequence[Line], values: Sequence[float]) -> None:
    """s of Eq. 7 over the class sizes of a long-tailed setting, if there is one; a curve per beta."""
    line = next((line for line in lines if line.kind == "long_tailed"), lines[0])
    shades = canvas.ramp("viridis", [0.85 * number / max(len(values) - 1, 1) for number in range(len(values))])
    for value, colour in zip(values, shades, strict=True):
        strengths = strength_of(line.counts, beta=value, std=line.std)
        axis.plot(line.counts, strengths, color=colour, marker=".", linewidth=1.3, label=f"β = {value:g}")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.minorticks_off()
    axis.set_ylim(-0.02, 0.55)
    canvas.axis_labels(axis, f"training images N of a class ({line.name})")
    same = all(furthest_apart(line.counts, (line.std, values[0]), (line.std, value)) < SAME_POINT for value in values)
    # Curves that lie upon one another look like a single one.
    made = axis.legend(
        title=f"all the same to {SAME_POINT:g}" if same and len(values) > 1 else None,
        title_fontproperties={"size": 7.5},
        frameon=False,
        fontsize=7.5,
        labelcolor=MUTED,
        loc="upper left",
        alignment="left",
        handlelength=1.2,
    )
    made.get_title().set_color(MUTED)
