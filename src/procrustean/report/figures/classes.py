"""Training accuracy of every class along the epochs, one panel per setting: the picture of the demonstration.

All lines are means over the seeds, with a band of one standard deviation. Where the classes have two or three sizes, a
thick line is the mean over those of a size, and single classes are thin; else there is one line per class, dark for the
largest class to light for the smallest. Classes are listed with their counts, or shown on a colour bar where they are
too many to list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.records.groups import Group, group_results, split_by_data
from procrustean.records.names import data_text, distinct_labels
from procrustean.records.run_record import Result
from procrustean.report.figures.canvas import (
    INK,
    MUTED,
    Artist,
    Axes,
    ColorType,
    Figure,
    box_key,
    colour_bar,
    large_to_small,
    legend_beside,
    line_key,
    sheet,
    shortened,
    title,
    whole_numbers,
)

PANELS_PER_ROW = 4
MOST_LEGEND_ENTRIES = 20
MOST_SIZES = 3
#: From the largest size to the smallest, for two sizes and for three; told apart by colour-blind readers too.
SIZE_COLOURS = {2: ("#0072b2", "#d55e00"), 3: ("#0072b2", "#009e73", "#d55e00")}


@dataclass(frozen=True)
class Accuracies:
    """Training accuracies in percent at the epochs (counted from 1) that all runs of a setting have measured."""

    epochs: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]  # [runs, epochs, classes]

    def of(self, classes: Sequence[int]) -> npt.NDArray[np.float64]:
        """Mean over some classes, [runs, epochs]."""
        return np.asarray(self.values[:, :, list(classes)].mean(axis=2))


def classes(results: Sequence[Result]) -> Figure:
    """The figure, of runs on the same data; all panels share their axes."""
    groups = group_results(results)
    if len(split_by_data(groups)) > 1:
        raise RunError(
            "The panels share their classes, so all runs must be of the same data with the same counts; "
            f"received {'; '.join(sorted({data_text(group) for group in groups}))}. "
            "Draw one figure per data setting."
        )
    measured = [measured_accuracies(group) for group in groups]
    rows = math.ceil(len(groups) / PANELS_PER_ROW)
    columns = math.ceil(len(groups) / rows)
    figure, axes = sheet(rows, columns, width=3.1, height=3.0, margin=(2.0, 0.5), share_x=True, share_y=True)
    panels = [axis for row in axes for axis in row]
    counts = groups[0].counts
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    colours = large_to_small([counts[index] for index in order])
    sizes = classes_by_size(counts)
    for panel, group, label, own in zip(panels, groups, distinct_labels(groups), measured, strict=False):
        if sizes:
            _draw_sizes(panel, own, sizes)
        else:
            _draw_classes(panel, own, order, colours)
        runs = len(group.results)
        title(panel, label, f"{runs} seed{'s' if runs > 1 else ''}")
        whole_numbers(panel)
    for panel in panels[len(groups) :]:
        panel.set_visible(False)
    first, last = min(own.epochs[0] for own in measured), max(own.epochs[-1] for own in measured)
    panels[0].set_xlim((first, last) if last > first else (first - 1, first + 1))
    panels[0].set_ylim(-2, 102)
    panels[0].set_yticks(range(0, 101, 20))
    figure.suptitle(data_text(groups[0]), x=0.01, ha="left", fontsize=9, color=MUTED, parse_math=False)
    figure.supxlabel("epoch", fontsize=10, color=INK)
    figure.supylabel("training accuracy per class (%)", fontsize=10, color=INK)
    several = any(len(own.values) > 1 for own in measured)
    if sizes:
        _list_sizes(figure, groups[0], sizes, several_runs=several)
    elif len(order) <= MOST_LEGEND_ENTRIES:
        _list_classes(figure, groups[0], order, colours, several_runs=several)
    else:
        names = [f"{counts[index]:,}" for index in order]
        colour_bar(figure, panels, colours, names, f"training images of the class ({len(order)} classes)")
    return figure


def measured_accuracies(group: Group) -> Accuracies:
    """The epochs that all runs of a group have measured, and what they measured."""
    per_run = [_measured_epochs(result) for result in group.results]
    epochs = sorted(set.intersection(*(set(run) for run in per_run)))
    if not epochs:
        raise RunError(
            f"The runs of {group.label} did not measure the training accuracy per class at any common epoch. "
            "Train them with track_training=True (--track-training)."
        )
    values = 100 * np.array([[run[epoch] for epoch in epochs] for run in per_run])
    return Accuracies(np.array(epochs, dtype=np.float64) + 1, values)


def _measured_epochs(result: Result) -> dict[int, list[float]]:
    curves = result.record.curves
    return {
        epoch: [math.nan if value is None else value for value in row]
        for epoch, row in zip(curves.evaluated, curves.train_recall, strict=True)
        if row is not None
    }


def classes_by_size(counts: Sequence[int]) -> dict[int, list[int]]:
    """Classes by size, the largest first, where there are two or three sizes of several classes each; else nothing.

    >>> classes_by_size([100, 100, 5, 5]), classes_by_size([100, 50, 5])
    ({100: [0, 1], 5: [2, 3]}, {})
    """
    sizes: dict[int, list[int]] = {}
    for index in sorted(range(len(counts)), key=lambda index: (-counts[index], index)):
        sizes.setdefault(counts[index], []).append(index)
    few = 2 <= len(sizes) <= MOST_SIZES and all(len(own) > 1 for own in sizes.values())
    return sizes if few else {}


def _draw_sizes(panel: Axes, measured: Accuracies, sizes: Mapping[int, Sequence[int]]) -> None:
    """A thick line with a band for the mean of the classes of each size, a thin pale one for each class."""
    for colour, own in zip(SIZE_COLOURS[len(sizes)], sizes.values(), strict=True):
        for index in own:
            _line(panel, measured.epochs, measured.of([index]), colour, width=0.7, alpha=0.35)
        _line(panel, measured.epochs, measured.of(own), colour, width=2.4, zorder=4)
        _band(panel, measured.epochs, measured.of(own), colour)


def _draw_classes(panel: Axes, measured: Accuracies, order: Sequence[int], colours: Sequence[ColorType]) -> None:
    """A line with a band for each class."""
    width = 1.6 if len(order) <= MOST_LEGEND_ENTRIES else 0.8
    for rank, (index, colour) in enumerate(zip(order, colours, strict=True)):
        _line(panel, measured.epochs, measured.of([index]), colour, width=width, zorder=3 + rank / len(order))
        _band(panel, measured.epochs, measured.of([index]), colour)


def _line(
    panel: Axes,
    epochs: npt.NDArray[np.float64],
    runs: npt.NDArray[np.float64],
    colour: ColorType,
    *,
    width: float,
    alpha: float = 1.0,
    zorder: float = 3.0,
) -> None:
    panel.plot(
        epochs,
        runs.mean(axis=0),
        color=colour,
        linewidth=width,
        alpha=alpha,
        marker="o" if len(epochs) == 1 else None,
        markersize=4,
        zorder=zorder,
        solid_capstyle="round",
    )


def _band(panel: Axes, epochs: npt.NDArray[np.float64], runs: npt.NDArray[np.float64], colour: ColorType) -> None:
    """One standard deviation over the runs on either side of their mean."""
    if len(runs) < 2:
        return
    mean, sd = runs.mean(axis=0), runs.std(axis=0, ddof=1)
    low, high = np.clip(mean - sd, 0, 100), np.clip(mean + sd, 0, 100)
    panel.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)


def _list_sizes(figure: Figure, group: Group, sizes: Mapping[int, Sequence[int]], *, several_runs: bool) -> None:
    keys, names = [], []
    for colour, (count, own) in zip(SIZE_COLOURS[len(sizes)], sizes.items(), strict=True):
        keys.append(line_key(colour, linewidth=2.8))
        listed = shortened(", ".join(group.classes[index] for index in own))
        names.append(f"{len(own)} classes with {count:,} image{'s' * (count != 1)}\n({listed}), their mean")
    keys.append(line_key(MUTED, linewidth=0.8, alpha=0.7))
    names.append("one of these classes")
    _list(figure, keys, names, "training accuracy", several_runs=several_runs)


def _list_classes(
    figure: Figure, group: Group, order: Sequence[int], colours: Sequence[ColorType], *, several_runs: bool
) -> None:
    keys = [line_key(colour, linewidth=2.4) for colour in colours]
    names = [
        f"{shortened(group.classes[index])} ({group.counts[index]:,} image{'s' * (group.counts[index] != 1)})"
        for index in order
    ]
    _list(figure, keys, names, "class", several_runs=several_runs)


def _list(figure: Figure, keys: Sequence[Artist], names: Sequence[str], heading: str, *, several_runs: bool) -> None:
    """The lines by name and, where there are several runs, what the bands are."""
    band = [box_key(MUTED, alpha=0.25)] * several_runs
    more = ["± 1 standard deviation\nover the seeds"] * several_runs
    legend_beside(figure, [*keys, *band], [*names, *more], heading + ", mean over the seeds" * several_runs)
