"""Figures drawn from results, saved as PNG and SVG; matplotlib is used without pyplot or global state."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from procrustean.base.errors import RunError
from procrustean.base.escaping import one_line
from procrustean.base.whole_files import write_atomically
from procrustean.records.groups import Group, Result, data_text, distinct_labels, group_results, split_by_data
from procrustean.report.progress_lines import SIZE_COLOURS, Curves, draw_classes, draw_sizes, sizes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

PANELS_PER_ROW = 4
MOST_LEGEND_ENTRIES = 20
LONGEST_CLASS_NAME = 22
INK, MUTED, GRID = "#1a1a1a", "#5f6368", "#e3e5e8"


def training_progress(groups_or_results: Iterable[Group | Result], path_stem: str | Path) -> list[Path]:
    """Draws the training accuracy of every class along the epochs, one panel per setting, side by side.

    All lines are means over the seeds, with a band of one standard deviation. Where the classes have two or three
    sizes, a thick line is the mean over those of a size, and single classes are thin; else there is one line per class,
    dark for the largest class to light for the smallest. All panels share their axes. Classes are listed with their
    counts, or shown on a colour bar where they are too many to list.

    Args:
        groups_or_results: groups, or results that are then grouped; all must be of the same data.
        path_stem: where to save, without ending; `.png` and `.svg` are added and missing folders made.

    Returns:
        The two files written.
    """
    groups = _grouped(groups_or_results)
    curves = [_measured(group) for group in groups]
    figure = _draw(groups, curves)
    stem = Path(path_stem)
    paths = [stem.with_name(stem.name + ending) for ending in (".png", ".svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            write_drawing(figure, path, dpi=200, metadata=metadata)
    except OSError as error:
        raise RunError(f"The figure cannot be written to {stem}: {error.strerror or error}.") from error
    return paths


def write_drawing(figure: Figure, path: Path, **how: Any) -> None:
    """Write a figure in the format that its file is named after, as a whole or not at all.

    Args:
        figure: what is drawn.
        path: the file; an older figure there is replaced.
        how: more of what matplotlib's `savefig` takes.
    """
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), **how)
    write_atomically(path, drawn.getvalue(), "make room, or choose another place")


def _grouped(groups_or_results: Iterable[Group | Result]) -> list[Group]:
    given = list(groups_or_results)
    groups = [item for item in given if isinstance(item, Group)]
    groups += group_results(item for item in given if isinstance(item, Result))
    if not groups:
        raise RunError("There are no results to draw. Give at least one finished run.")
    if len(split_by_data(groups)) > 1:
        raise RunError(
            "The panels share their classes, so all runs must be of the same data with the same counts; "
            f"received {'; '.join(sorted({data_text(group) for group in groups}))}. "
            "Draw one figure per data setting."
        )
    return groups


def _measured(group: Group) -> Curves:
    """The epochs that all runs of a group have measured, and what they measured."""
    per_run = [_measured_epochs(result) for result in group.results]
    epochs = sorted(set.intersection(*(set(run) for run in per_run)))
    if not epochs:
        raise RunError(
            f"The runs of {group.label} did not measure the training accuracy per class at any common epoch. "
            "Train them with track_training=True (--track-training)."
        )
    values = 100 * np.array([[run[epoch] for epoch in epochs] for run in per_run])
    return Curves(np.array(epochs, dtype=np.float64) + 1, values)


def _measured_epochs(result: Result) -> dict[int, list[float]]:
    curves = result.record["curves"]
    rows = curves.get("train_recall") or []
    evaluated = curves.get("evaluated") or []
    return {
        int(epoch): [math.nan if value is None else float(value) for value in row]
        for epoch, row in zip(evaluated, rows, strict=False)
        if row is not None
    }


def _draw(groups: Sequence[Group], curves: Sequence[Curves]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = math.ceil(len(groups) / PANELS_PER_ROW)
    columns = math.ceil(len(groups) / rows)
    figure = Figure(figsize=(3.1 * columns + 2.0, 3.0 * rows + 0.5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    panels: list[Axes] = list(axes.flat)

    counts = groups[0].counts
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    colours = major_to_minor([counts[index] for index in order])
    sizes = sizes_of(counts)
    width = 1.6 if len(order) <= MOST_LEGEND_ENTRIES else 0.8
    for panel, group, label, measured in zip(panels, groups, distinct_labels(groups), curves, strict=False):
        if sizes:
            draw_sizes(panel, measured, sizes)
        else:
            draw_classes(panel, measured, order, [colours(rank) for rank in range(len(order))], width=width)
        runs = len(group.results)
        panel.set_title(label, loc="left", fontsize=11, fontweight="bold", color=INK, parse_math=False)
        panel.set_title(f"{runs} seed{'s' if runs > 1 else ''}", loc="right", fontsize=8.5, color=MUTED)
        _style(panel)
    for panel in panels[len(groups) :]:
        panel.set_visible(False)

    first, last = min(c.epochs[0] for c in curves), max(c.epochs[-1] for c in curves)
    panels[0].set_xlim((first, last) if last > first else (first - 1, first + 1))
    panels[0].set_ylim(-2, 102)
    figure.suptitle(data_text(groups[0]), x=0.01, ha="left", fontsize=9, color=MUTED, parse_math=False)
    figure.supxlabel("epoch", fontsize=10, color=INK)
    figure.supylabel("training accuracy per class (%)", fontsize=10, color=INK)
    several = any(len(measured.values) > 1 for measured in curves)
    if sizes:
        _explain_sizes(figure, groups[0], sizes, several_runs=several)
    elif len(order) <= MOST_LEGEND_ENTRIES:
        _explain_classes(figure, groups[0], order, colours, several_runs=several)
    else:
        _explain_colours(figure, panels, groups[0], order, colours)
    return figure


def _style(panel: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.set_yticks(range(0, 101, 20))
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    panel.grid(True, color=GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, colors=MUTED, length=0, labelleft=True, labelbottom=True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color("#b5b9bf")


def major_to_minor(counts: Sequence[int]) -> ListedColormap:
    """One colour per class from largest to smallest, ordered in lightness and safe for colour-blind readers.

    Rank keeps classes of equal size apart, the logarithm of the count keeps the two levels of a step apart.
    The pale end of the map is left out, for it fades on white.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    rank = np.linspace(0, 1, len(counts))
    logs = np.log(np.maximum(counts, 1))
    size = (logs[0] - logs) / (logs[0] - logs[-1]) if logs[0] > logs[-1] else rank
    whole = colormaps["plasma"]
    return ListedColormap([whole(0.86 * share) for share in 0.6 * rank + 0.4 * size])


def _explain_sizes(figure: Figure, group: Group, sizes: Mapping[int, Sequence[int]], *, several_runs: bool) -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    names = []
    for colour, (count, classes) in zip(SIZE_COLOURS[len(sizes)], sizes.items(), strict=True):
        handles.append(Line2D([], [], color=colour, linewidth=2.8))
        listed = shortened(", ".join(group.classes[index] for index in classes))
        names.append(f"{len(classes)} classes with {count:,} image{'s' * (count != 1)}\n({listed}), their mean")
    handles.append(Line2D([], [], color=MUTED, linewidth=0.8, alpha=0.7))
    names.append("one of these classes")
    _legend(figure, handles, names, "training accuracy", several_runs=several_runs)


def _explain_classes(
    figure: Figure, group: Group, order: Sequence[int], colours: ListedColormap, *, several_runs: bool
) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colours(rank), linewidth=2.4) for rank in range(len(order))]
    counts = [group.counts[index] for index in order]
    names = [
        f"{shortened(group.classes[index])} ({count:,} image{'s' * (count != 1)})"
        for index, count in zip(order, counts, strict=True)
    ]
    _legend(figure, handles, names, "class", several_runs=several_runs)


def _explain_colours(
    figure: Figure, panels: list[Axes], group: Group, order: Sequence[int], colours: ListedColormap
) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm

    scale = ScalarMappable(BoundaryNorm(np.arange(len(order) + 1) - 0.5, len(order)), colours)
    ticks = np.unique(np.linspace(0, len(order) - 1, 6).round().astype(int))
    bar = figure.colorbar(scale, ax=panels, ticks=ticks, fraction=0.05, pad=0.02, aspect=30)
    bar.ax.set_yticklabels([f"{group.counts[order[rank]]:,}" for rank in ticks])
    bar.ax.tick_params(labelsize=8.5, colors=MUTED, length=0)
    bar.minorticks_off()
    bar.ax.invert_yaxis()
    bar.outline.set_visible(False)
    bar.set_label(f"training images of the class ({len(order)} classes)", fontsize=9, color=MUTED)


def _legend(figure: Figure, handles: Sequence[Any], names: Sequence[str], title: str, *, several_runs: bool) -> None:
    """The lines by name and, where there are several runs, what the bands are."""
    from matplotlib.patches import Patch

    band = [Patch(facecolor=MUTED, alpha=0.25, linewidth=0)] * several_runs
    legend = figure.legend(
        [*handles, *band],
        [*names, *["± 1 standard deviation\nover the seeds"] * several_runs],
        loc="outside right upper",
        title=title + ", mean over the seeds" * several_runs,
        alignment="left",
        frameon=False,
        fontsize=8.5,
        handlelength=1.4,
        labelspacing=0.7,
        borderpad=0.2,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
        text.set_color(INK)
    legend.get_title().set_fontsize(8.5)
    legend.get_title().set_color(MUTED)


def shortened(name: str, longest: int = LONGEST_CLASS_NAME) -> str:
    """A name of at most so many characters, by default of a class in a legend."""
    name = one_line(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"
