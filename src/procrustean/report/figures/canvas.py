"""What all figures share: a sheet of panels in one style, colours that colour-blind readers can tell apart, files.

The only module that imports matplotlib, without pyplot and its global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist as Artist
from matplotlib.axes import Axes as Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure as Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import ColorType as ColorType

from procrustean.base.errors import RunError
from procrustean.base.escaping import one_line
from procrustean.base.files import write_atomically

INK, MUTED, GRID, FRAME = "#1a1a1a", "#5f6368", "#e3e5e8", "#b5b9bf"
#: Largest and smallest class: blue and vermilion of Okabe and Ito.
LARGEST, SMALLEST = "#0072b2", "#d55e00"
#: Further colours of theirs, in an order in which neighbours differ in lightness too.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
MARKERS = ("o", "s", "^", "D", "v", "P")
#: Rows of a legend for which a sheet has room, and inches that each further one takes.
ROWS, ROW = 3, 0.19
LONGEST_CLASS_NAME = 22


def sheet(
    rows: int,
    columns: int,
    *,
    width: float = 2.9,
    height: float = 2.6,
    margin: tuple[float, float] = (0.6, 0.7),
    share_x: bool = False,
    share_y: bool | str = "row",
) -> tuple[Figure, list[list[Axes]]]:
    """A white figure with panels, row by row; panels of a row share their y axis.

    Args:
        rows: of panels.
        columns: of panels.
        width: of a panel, in inches.
        height: of a panel.
        margin: further inches beside and below all panels.
        share_x: whether all panels share their x axis.
        share_y: whether those of a row share their y axis, all, or none.
    """
    size = (width * columns + margin[0], height * rows + margin[1])
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharey=share_y, sharex=share_x, squeeze=False)  # type: ignore[arg-type]
    for panel in axes.flat:
        _style(panel)
    return figure, [list(row) for row in axes]


def _style(panel: Axes) -> None:
    """Light grid, no frame."""
    panel.grid(True, color=GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, colors=MUTED, length=0, labelleft=True, labelbottom=True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(FRAME)


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
    colour, marker = look(number)
    return line_key(colour, marker=marker, linewidth=1.8)


def line_key(colour: ColorType, **how: Any) -> Artist:
    """A line or marker in a legend."""
    return Line2D([], [], color=colour, **how)


def box_key(colour: ColorType, **how: Any) -> Artist:
    """A filled box in a legend."""
    return Patch(facecolor=colour, linewidth=0, **how)


def ramp(name: str, shares: Sequence[float]) -> list[ColorType]:
    """Colours of a colour map of matplotlib at places from 0 to 1."""
    colours = mpl.colormaps[name]
    return [colours(share) for share in shares]


def large_to_small(counts: Sequence[int]) -> list[ColorType]:
    """One colour per class from largest to smallest, ordered in lightness and safe for colour-blind readers.

    Rank keeps classes of equal size apart, the logarithm of the count keeps the two levels of a step apart.
    The pale end of the map is left out, for it fades on white.
    """
    rank = np.linspace(0, 1, len(counts))
    logs = np.log(np.maximum(counts, 1))
    size = (logs[0] - logs) / (logs[0] - logs[-1]) if logs[0] > logs[-1] else rank
    return ramp("plasma", [0.86 * share for share in 0.6 * rank + 0.4 * size])


def colour_bar(
    figure: Figure, panels: Sequence[Axes], colours: Sequence[ColorType], names: Sequence[str], label: str
) -> None:
    """A scale of colours beside the panels, for more classes than a legend can list; some of their names on it."""
    scale = ScalarMappable(BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours)), ListedColormap(list(colours)))
    ticks = np.unique(np.linspace(0, len(colours) - 1, 6).round().astype(int))
    bar = figure.colorbar(scale, ax=list(panels), ticks=ticks, fraction=0.05, pad=0.02, aspect=30)
    bar.ax.set_yticklabels([names[place] for place in ticks])
    bar.ax.tick_params(labelsize=8.5, colors=MUTED, length=0)
    bar.minorticks_off()
    bar.ax.invert_yaxis()
    bar.outline.set_visible(False)
    bar.set_label(label, fontsize=9, color=MUTED)


def regions_picture(
    panel: Axes, classes: npt.NDArray[Any], limits: tuple[float, float, float, float], number: int
) -> None:
    """Paint a grid of classes in their `COLOURS`, pale."""
    colours = ListedColormap(COLOURS[:number])
    panel.imshow(
        classes, origin="lower", extent=limits, cmap=colours, vmin=-0.5, vmax=number - 0.5, alpha=0.22, zorder=0
    )
    panel.set_xlim(limits[0], limits[1])
    panel.set_ylim(limits[2], limits[3])
    panel.set_aspect("equal")


def whole_numbers(panel: Axes) -> None:
    """Ticks of the x axis at whole numbers, such as epochs."""
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


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
        side.set_color(FRAME)


def legend(figure: Figure, handles: Sequence[Artist], names: Sequence[str], columns: int = 4) -> Legend:
    """One legend for all panels, below them, in as many columns as fit; a long one makes the figure taller."""
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
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
    """Write the figure as PNG and SVG, each as a whole or not at all; returns the two files."""
    paths = [stem.with_name(stem.name + ending) for ending in (".png", ".svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        # The names of shapes in an SVG are drawn at random unless they are salted: the same figure, the same file.
        with mpl.rc_context({"svg.hashsalt": "procrustean"}):
            for path, how in zip(paths, ({"dpi": 200}, {"metadata": {"Date": None}}), strict=True):
                drawn = io.BytesIO()
                figure.savefig(drawn, format=path.suffix[1:], **how)  # type: ignore[arg-type]
                write_atomically(path, drawn.getvalue(), "make room, or choose another place")
    except OSError as error:
        raise RunError(f"The figure cannot be written to {stem}: {error.strerror or error}.") from error
    return paths


def shortened(name: str, longest: int = LONGEST_CLASS_NAME) -> str:
    """A name of at most so many characters, by default of a class in a legend."""
    name = one_line(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"
