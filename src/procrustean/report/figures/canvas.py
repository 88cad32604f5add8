"""What all figures share: a sheet of panels in one style, colours that colour-blind readers can tell apart, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.report.page_figures import GRID, INK, MUTED, write_drawing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

#: Largest and smallest class: blue and vermilion of Okabe and Ito.
LARGEST, SMALLEST = "#0072b2", "#d55e00"
#: Further colours of theirs, in an order in which neighbours differ in lightness too.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
MARKERS = ("o", "s", "^", "D", "v", "P")
#: Rows of a legend for which a sheet has room, and inches that each further one takes.
ROWS, ROW = 3, 0.19


def sheet(
    rows: int,
    columns: int,
    *,
    width: float = 2.9,
    height: float = 2.6,
    margin: tuple[float, float] = (0.6, 0.7),
    share_y: bool | str = "row",
) -> tuple[Figure, list[list[Axes]]]:
    """A white figure with panels, row by row; panels of a row share their y axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (width * columns + margin[0], height * rows + margin[1])
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharey=share_y, squeeze=False)  # type: ignore[arg-type]
    for panel in axes.flat:
        style(panel)
    return figure, [list(row) for row in axes]


def style(panel: Axes) -> None:
    """Light grid, no frame."""
    panel.grid(True, color=GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, colors=MUTED, length=0, labelleft=True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color("#b5b9bf")


def title(panel: Axes, text: str, small: str = "") -> None:
    """What a panel shows; names of users are never taken for formulas."""
    panel.set_title(text, loc="left", fontsize=10.5, fontweight="bold", color=INK, parse_math=False)
    if small:
        panel.set_title(small, loc="right", fontsize=8.5, color=MUTED, parse_math=False)


def axis_labels(panel: Axes, x: str = "", y: str = "") -> None:
    """What the axes measure."""
    if x:
        panel.set_xlabel(x, fontsize=9.5, color=INK)
    if y:
        panel.set_ylabel(y, fontsize=9.5, color=INK)


def look(number: int) -> tuple[str, str]:
    """Colour and marker of a line, the same for no other of the first 36."""
    return COLOURS[number % len(COLOURS)], MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def whiskers(percent: npt.ArrayLike, spread: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """How far whiskers of this spread reach below and above shares in percent, [2, ...]: no share is beyond 0 or 100.

    >>> whiskers([50.0, 97.0], [10.0, 10.0]).tolist()
    [[10.0, 10.0], [10.0, 3.0]]
    """
    middle, length = np.asarray(percent, np.float64), np.asarray(spread, np.float64)
    return np.stack([np.minimum(length, middle), np.minimum(length, 100 - middle)])


def line_with_spread(
    panel: Axes, x: Sequence[float], y: Sequence[float], spread: Sequence[float], number: int
) -> tuple[str, str]:
    """Draw a line of shares in percent with whiskers of this spread at its points; returns its look."""
    colour, marker = look(number)
    reach = whiskers(y, spread)
    panel.errorbar(x, y, yerr=reach, color=colour, marker=marker, markersize=5, linewidth=1.8, elinewidth=1, zorder=3)
    return colour, marker


def line_handle(number: int) -> Artist:
    """Such a line in a legend."""
    from matplotlib.lines import Line2D

    colour, marker = look(number)
    return Line2D([], [], color=colour, marker=marker, linewidth=1.8)


def value_axis(panel: Axes, values: Sequence[float], names: Sequence[str] = (), *, logarithmic: bool = True) -> None:
    """An x axis with a tick at each of these values, in ascending order.

    Args:
        panel: the panel, of a figure of its final width.
        values: where the ticks are.
        names: what is written at them, by default the values; names that would run into the one before are left out.
        logarithmic: whether the axis is; then all values are positive.
    """
    grid = panel.get_subplotspec()
    columns = 1 if grid is None else grid.get_gridspec().ncols
    room = panel.figure.get_figwidth() / columns - 0.5  # type: ignore[union-attr]  # inches from the first to the last
    places = [math.log(value) if logarithmic else value for value in values]
    span = places[-1] - places[0] or 1.0
    shown: list[str] = []
    end = -math.inf
    for place, name in zip(places, names or [f"{value:g}" for value in values], strict=True):
        middle, half = room * (place - places[0]) / span, 0.04 * len(name)
        fits = middle - half >= end
        shown.append(name if fits else "")
        end = middle + half + 0.05 if fits else end
    if logarithmic:
        panel.set_xscale("log")
    panel.set_xticks(list(values), shown)
    panel.minorticks_off()


def from_zero(panels: Sequence[Axes]) -> None:
    """Let the common y axis of drawn panels begin at 0 and end above all of their lines."""
    highest = max((panel.dataLim.ymax for panel in panels), default=1.0)
    for panel in panels:
        panel.set_ylim(0, 1.05 * highest if highest > 0 else 1.0)


def frame(panel: Axes) -> None:
    """A panel without scales, for a picture whose axes mean nothing."""
    panel.set_xticks([])
    panel.set_yticks([])
    panel.grid(False)
    for side in panel.spines.values():
        side.set_visible(True)
        side.set_color("#b5b9bf")


def legend(figure: Figure, handles: Sequence[Artist], names: Sequence[str], columns: int = 4) -> Legend:
    """One legend for all panels, below them, in as many columns as fit; a long one makes the figure taller."""
    longest = max(map(len, names), default=0)
    columns = max(1, min(columns, len(names), int(figure.get_figwidth() / (0.6 + 0.075 * longest))))
    rows = math.ceil(len(names) / columns)
    figure.set_figheight(figure.get_figheight() + ROW * max(0, rows - ROWS))
    made = figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=1.8,
    )
    for text in made.get_texts():
        text.set_parse_math(False)
        text.set_color(INK)
    return made


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write the figure as PNG and SVG; returns the two files."""
    import matplotlib as mpl

    paths = [stem.with_name(stem.name + ending) for ending in (".png", ".svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        # The names of shapes in an SVG are drawn at random unless they are salted: the same figure, the same file.
        with mpl.rc_context({"svg.hashsalt": "procrustean"}):
            write_drawing(figure, paths[0], dpi=200)
            write_drawing(figure, paths[1], metadata={"Date": None})
    except OSError as error:
        raise RunError(f"The figure cannot be written to {stem}: {error.strerror or error}.") from error
    return paths
