"""Curves along the epochs, of the largest and the smallest class: training progress, gradients, feature deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import INK, LARGEST, MUTED, SMALLEST, Axes, ColorType, Figure
from procrustean.report.figures.panels import Panel, class_name, extreme_names

#: More classes than this are too many to name; their colours run from the largest to the smallest.
MOST_NAMED = 12


def progress(panels: Sequence[Panel], *, all_classes: bool = False) -> Figure:
    """Training accuracy above, classification ratio below, one column per setting (Fig. 1, Fig. 3, supplement)."""
    figure, axes = canvas.sheet(2, len(panels))
    for column, panel in enumerate(panels):
        canvas.title(axes[0][column], panel.title, panel.along)
        _draw(axes[0][column], panel, "train_recall", all_classes, scale=100, most=100)
        _draw(axes[1][column], panel, "classification_ratio", all_classes, scale=100)
        axes[0][column].set_ylim(-3, 103)
        axes[1][column].axhline(100, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        canvas.axis_labels(axes[1][column], "epoch")
    canvas.from_zero(axes[1])
    canvas.axis_labels(axes[0][0], y="training set accuracy (%)")
    canvas.axis_labels(axes[1][0], y="classification ratio (%)")
    _legend(figure, panels, all_classes)
    return figure


def gradients(panels: Sequence[Panel], *, all_classes: bool = False) -> Figure:
    """Length of the loss gradient at the mixing layer, one panel per setting (Fig. 4) and layer.

    Lengths at different layers do not compare: only panels of one layer have the same scale.
    """
    layers = [layer for panel in panels for layer in panel.layers]
    panels = [panel.at_layer(layer) for panel in panels for layer in panel.layers]
    figure, (axes,) = canvas.sheet(1, len(panels), share_y="row" if len(set(layers)) == 1 else False)
    mixes = False
    for axis, panel, layer in zip(axes, panels, layers, strict=True):
        canvas.title(axis, panel.title, ", ".join(filter(None, (f"at {layer}", panel.along))))
        _draw(axis, panel, "gradient_norm_trained", all_classes)
        if all(curves.mixes.any() for curves in panel.curves):
            mixes = True
            _draw(axis, panel, "gradient_norm", all_classes, dashed=True)
        canvas.axis_labels(axis, "epoch")
    for layer in set(layers):
        canvas.from_zero([axis for axis, own in zip(axes, layers, strict=True) if own == layer])
    canvas.axis_labels(axes[0], y=r"feature gradient norm $\|\nabla_{g(x)}\,\ell\|_2$")
    _legend(figure, panels, all_classes, dashed="same weights, nothing mixed" if mixes else "")
    return figure


def deviation(panels: Sequence[Panel], *, all_classes: bool = False) -> Figure:
    """Distance between training and test features, one panel per setting (Fig. 7)."""
    figure, (axes,) = canvas.sheet(1, len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        canvas.title(axis, panel.title, panel.along)
        _draw(axis, panel, "feature_deviation", all_classes)
        canvas.axis_labels(axis, "epoch")
    canvas.from_zero(axes)
    canvas.axis_labels(axes[0], y="feature deviation")
    _legend(figure, panels, all_classes)
    return figure


def _draw(
    axis: Axes,
    panel: Panel,
    name: str,
    all_classes: bool,
    *,
    scale: float = 1.0,
    most: float = np.inf,
    dashed: bool = False,
) -> None:
    """Draw a curve of each class that is shown, with a band that ends where there are no values: at 0 and at `most`."""
    epochs, mean, spread = panel.measured(name)
    alone = len(epochs) == 1
    for index, colour in _shown(panel, all_classes):
        values, band = scale * mean[:, index], scale * spread[:, index]
        axis.plot(
            epochs,
            values,
            color=colour,
            linewidth=1.1 if dashed or all_classes else 1.9,
            linestyle=(0, (3, 2)) if dashed else "-",
            marker=None if not alone else "D" if dashed else "o",
            markerfacecolor="none" if dashed else colour,
            clip_on=not alone,
            zorder=3,
            solid_capstyle="round",
        )
        if len(panel.curves) > 1 and not dashed:
            low, high = np.maximum(values - band, 0), np.minimum(values + band, most)
            axis.fill_between(epochs, low, high, color=colour, alpha=0.14, linewidth=0, zorder=2)
    if alone:
        axis.set_xlim(epochs[0] - 1, epochs[0] + 1)
        axis.set_xticks(epochs)
        return
    axis.set_xlim(0, max(float(epochs[-1]), 1.0))
    canvas.whole_numbers(axis)


def _shown(panel: Panel, all_classes: bool) -> list[tuple[int, ColorType]]:
    """The classes that are drawn, with their colours."""
    if not all_classes:
        largest, smallest = panel.first.extremes
        return [(largest, LARGEST), (smallest, SMALLEST)]
    counts = panel.first.counts
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    return list(zip(order, canvas.large_to_small([counts[index] for index in order]), strict=True))


def _legend(figure: Figure, panels: Sequence[Panel], all_classes: bool, dashed: str = "") -> None:
    shown, first = _shown(panels[0], all_classes), panels[0].first
    if not all_classes:
        names = extreme_names(panels)
    elif len(shown) <= MOST_NAMED:
        names = [class_name(first, index) for index, _ in shown]
    else:
        classes, shown = len(shown), [shown[0], shown[-1]]
        names = [f"{class_name(first, index)}, of {classes} classes by size" for index, _ in shown]
    handles = [canvas.line_key(colour, linewidth=2.4) for _, colour in shown]
    if dashed:
        alone = all(len(panel.epochs) == 1 for panel in panels)
        how: dict[str, Any] = {"marker": "D", "markerfacecolor": "none"} if alone else {"linestyle": (0, (3, 2))}
        handles.append(canvas.line_key(INK, linewidth=0 if alone else 1.1, **how))
        names.append(dashed)
    canvas.legend(figure, handles, names)
