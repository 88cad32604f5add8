"""What a network has learned at the end: accuracies of every class as bars, t-SNE of its features (supplement)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.engine.stored_features import KeptFeatures, load_features
from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import INK, LARGEST, MUTED, SMALLEST, Figure
from procrustean.report.figures.panels import Panel, extreme_names

TRAIN, TEST = "#9ecae1", "#0072b2"
#: Beyond so many classes the bars carry numbers of classes instead of names and values.
MOST_NAMED = 12


def bars(panels: Sequence[Panel]) -> Figure:
    """Two bars per class, training and test accuracy of the last epoch, with the number of training images below."""
    most = max(len(panel.first.counts) for panel in panels)
    figure, axes = canvas.sheet(len(panels), 1, width=max(6.5, min(0.75 * most + 1, 12)), height=2.3)
    for (axis,), panel in zip(axes, panels, strict=True):
        curves = panel.first
        places = np.arange(len(curves.counts))
        named = len(places) <= MOST_NAMED
        for name, shift, colour in (("train_recall", -0.2, TRAIN), ("test_recall", 0.2, TEST)):
            _, mean, spread = panel.measured(name)
            errors = canvas.whiskers(100 * mean[-1], 100 * spread[-1]) if len(panel.curves) > 1 else None
            drawn = axis.bar(
                places + shift,
                100 * mean[-1],
                0.4,
                color=colour,
                yerr=errors,
                ecolor=INK,
                error_kw={"linewidth": 0.8},
            )
            if named:
                axis.bar_label(drawn, fmt="{:.0f}", fontsize=7.5, color=MUTED, padding=2)
        axis.set_ylim(0, 112)
        axis.set_yticks(range(0, 101, 20))
        axis.grid(False, axis="x")
        if named:
            texts = [f"{canvas.shortened(c)}\n{n:,}" for c, n in zip(curves.classes, curves.counts, strict=True)]
            axis.set_xticks(places, texts, fontsize=8.5)
            for label in axis.get_xticklabels():
                label.set_parse_math(False)
        else:
            axis.set_xlim(-1, len(places))
        canvas.title(axis, panel.title, panel.seeds)
        canvas.axis_labels(axis, y="accuracy (%)")
    below = "class and its training images" if most <= MOST_NAMED else "class, from the largest to the smallest"
    canvas.axis_labels(axes[-1][0], below)
    canvas.legend(figure, [canvas.box_key(TRAIN), canvas.box_key(TEST)], ["training set", "test set"])
    return figure


def tsne(panels: Sequence[Panel]) -> Figure:
    """One panel per setting, of its first run: circles are training images, crosses test images."""
    figure, (axes,) = canvas.sheet(1, len(panels), height=2.7, share_y=False)
    for axis, panel in zip(axes, panels, strict=True):
        kept = load_features(panel.folder)
        largest, smallest = panel.first.extremes
        places, labels, trained = embedded(kept, (largest, smallest))
        for label, colour in ((largest, LARGEST), (smallest, SMALLEST)):
            test, train = (labels == label) & ~trained, (labels == label) & trained
            # Test images first: there are more of them, and the few training images must not vanish below.
            x, y = places.T
            axis.scatter(x[test], y[test], s=14, marker="x", color=colour, linewidths=0.7, alpha=0.75, zorder=2)
            axis.scatter(x[train], y[train], s=16, color=colour, edgecolors="white", linewidths=0.4, zorder=3)
        canvas.frame(axis)
        canvas.title(axis, panel.title, f"epoch {kept.epoch}")
    handles = [canvas.line_key(colour, linewidth=0, marker="s", markersize=8) for colour in (LARGEST, SMALLEST)]
    handles += [canvas.line_key(INK, linewidth=0, marker=marker, markersize=6) for marker in ("o", "x")]
    canvas.legend(figure, handles, [*extreme_names(panels), "training", "test"])
    return figure


def embedded(
    kept: KeptFeatures, classes: Sequence[int]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Places in the plane [n, 2], classes [n], and which are training images [n]; the same for the same features."""
    from sklearn.manifold import TSNE

    labels = np.concatenate([kept.train_labels, kept.test_labels]).astype(np.int64)
    trained = np.arange(len(labels)) < len(kept.train_labels)
    wanted = np.isin(labels, classes)
    features = np.concatenate([kept.train, kept.test])[wanted]
    if len(features) < 5:
        raise RunError(f"only {len(features)} features of the two classes were kept; t-SNE needs at least 5")
    perplexity = min(30.0, (len(features) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(features)
    return places, labels[wanted], trained[wanted]
