"""Training and test accuracy of every class at the end, as bars; one row per setting (supplement)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from procrustean.report.figures.canvas import (
    INK,
    MUTED,
    Figure,
    axis_labels,
    box_key,
    legend,
    sheet,
    shortened,
    title,
    whiskers,
)
from procrustean.report.figures.panels import Panel

TRAIN, TEST = "#9ecae1", "#0072b2"
#: Beyond so many classes the bars carry numbers of classes instead of names and values.
MOST_NAMED = 12


def bars(panels: Sequence[Panel]) -> Figure:
    """Two bars per class, training and test accuracy of the last epoch, with the number of training images below."""
    most = max(len(panel.first.counts) for panel in panels)
    figure, axes = sheet(len(panels), 1, width=max(6.5, min(0.75 * most + 1, 12)), height=2.3)
    for (axis,), panel in zip(axes, panels, strict=True):
        curves = panel.first
        places = np.arange(len(curves.counts))
        named = len(places) <= MOST_NAMED
        for name, shift, colour in (("train_recall", -0.2, TRAIN), ("test_recall", 0.2, TEST)):
            _, mean, spread = panel.measured(name)
            errors = whiskers(100 * mean[-1], 100 * spread[-1]) if len(panel.curves) > 1 else None
            drawn = axis.bar(
                places + shift, 100 * mean[-1], 0.4, color=colour, yerr=errors, ecolor=INK, error_kw={"linewidth": 0.8}
            )
            if named:
                axis.bar_label(drawn, fmt="{:.0f}", fontsize=7.5, color=MUTED, padding=2)
        axis.set_ylim(0, 112)
        axis.set_yticks(range(0, 101, 20))
        axis.grid(False, axis="x")
        if named:
            texts = [f"{shortened(c)}\n{n:,}" for c, n in zip(curves.classes, curves.counts, strict=True)]
            axis.set_xticks(places, texts, fontsize=8.5)
            for label in axis.get_xticklabels():
                label.set_parse_math(False)
        else:
            axis.set_xlim(-1, len(places))
        title(axis, panel.title, panel.seeds)
        axis_labels(axis, y="accuracy (%)")
    below = "class and its training images" if most <= MOST_NAMED else "class, from the largest to the smallest"
    axis_labels(axes[-1][0], below)
    legend(figure, [box_key(TRAIN), box_key(TEST)], ["training set", "test set"])
    return figure
