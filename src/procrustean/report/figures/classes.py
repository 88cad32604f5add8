"""Training accuracy of every class along the epochs, one panel per setting: the picture of the demonstration.

All lines are means over the seeds, with a band of one standard deviation. Where the classes have two or three sizes, a
thick line is the mean over those of a size, and single classes are thin; else there is one line per class, dark for the
largest class to light for the smallest. They are listed with their counts, or shown on a colour bar where they are too
many to list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from procrustean.base.console import number_of
from procrustean.base.errors import RunError
from procrustean.records.groups import Group, group_results, split_by_data
from procrustean.records.run_labels import data_text, distinct_labels
from procrustean.records.run_record import Result
from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import MUTED, Axes, ColorType, Figure

PANELS_PER_ROW = 4
MOST_LEGEND_ENTRIES = 20
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


@dataclass(frozen=True)
class Line:
    """One class, or all classes of a size together."""

    name: str
    classes: tuple[int, ...]
    colour: ColorType


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
    figure, axes = canvas.sheet(rows, columns, width=3.1, height=3.0, margin=(0.6, 0.9), share_x=True, share_y=True)
    panels = [axis for row in axes for axis in row]
    lines = lines_of(groups[0])
    for panel, group, label, own in zip(panels, groups, distinct_labels(groups), measured, strict=False):
        for line in lines:
            _draw(panel, own, line, width=1.6 if len(lines) <= MOST_LEGEND_ENTRIES else 0.8)
        runs = len(group.results)
        canvas.title(panel, label, number_of(runs, "seed"))
        canvas.axis_labels(panel, "epoch")
        canvas.whole_numbers(panel)
    for panel in panels[len(groups) :]:
        panel.set_visible(False)
    first, last = min(own.epochs[0] for own in measured), max(own.epochs[-1] for own in measured)
    for row in axes:
        canvas.axis_labels(row[0], y="training accuracy per class (%)")
    panels[0].set_xlim((first, last) if last > first else (first - 1, first + 1))
    panels[0].set_ylim(-2, 102)
    panels[0].set_yticks(range(0, 101, 20))
    figure.suptitle(data_text(groups[0]), x=0.01, ha="left", fontsize=9, color=MUTED, parse_math=False)
    if len(lines) > MOST_LEGEND_ENTRIES:
        names = [f"{groups[0].counts[line.classes[0]]:,}" for line in lines]
        label = f"training images of the class ({len(lines)} classes)"
        canvas.colour_bar(figure, panels, [line.colour for line in lines], names, label)
    else:
        _list(figure, lines, several_runs=any(len(own.values) > 1 for own in measured))
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


def lines_of(group: Group) -> list[Line]:
    """What is drawn thick, from the largest to the smallest: two or three sizes of several classes each, or classes."""
    counts, names = group.counts, group.classes
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    images = [f"{count:,} image{'s' * (count != 1)}" for count in counts]
    sizes: dict[int, list[int]] = {}
    for index in order:
        sizes.setdefault(counts[index], []).append(index)
    if len(sizes) in SIZE_COLOURS and all(len(own) > 1 for own in sizes.values()):
        lines = []
        for own, colour in zip(sizes.values(), SIZE_COLOURS[len(sizes)], strict=True):
            named = canvas.shortened(", ".join(names[index] for index in own))
            lines.append(Line(f"{len(own)} classes with {images[own[0]]}\n({named})", tuple(own), colour))
        return lines
    colours = canvas.large_to_small([counts[index] for index in order])
    return [
        Line(f"{canvas.shortened(names[index])} ({images[index]})", (index,), colour)
        for index, colour in zip(order, colours, strict=True)
    ]


def _draw(panel: Axes, measured: Accuracies, line: Line, *, width: float) -> None:
    """The mean over the runs with a band of one standard deviation; of a size its classes as thin pale lines too."""
    epochs, runs = measured.epochs, measured.of(line.classes)
    mean, marker = runs.mean(axis=0), "o" if len(epochs) == 1 else None
    if len(line.classes) > 1:
        width = 2.4
        for index in line.classes:
            single = measured.of([index]).mean(axis=0)
            panel.plot(epochs, single, color=line.colour, linewidth=0.7, alpha=0.35, marker=marker, markersize=4)
    panel.plot(epochs, mean, color=line.colour, linewidth=width, marker=marker, markersize=4, zorder=4)
    if len(runs) > 1:
        sd = runs.std(axis=0, ddof=1)
        low, high = np.clip(mean - sd, 0, 100), np.clip(mean + sd, 0, 100)
        panel.fill_between(epochs, low, high, color=line.colour, alpha=0.15, linewidth=0, zorder=2)


def _list(figure: Figure, lines: Sequence[Line], *, several_runs: bool) -> None:
    """The lines by name, and what thin lines and bands are."""
    keys, names = [canvas.line_key(line.colour, linewidth=2.6) for line in lines], [line.name for line in lines]
    if any(len(line.classes) > 1 for line in lines):
        keys.append(canvas.line_key(MUTED, linewidth=0.8, alpha=0.7))
        names.append("one of these classes")
    if several_runs:
        keys.append(canvas.box_key(MUTED, alpha=0.25))
        names.append("± 1 standard deviation\nover the seeds")
    canvas.legend(figure, keys, names)
