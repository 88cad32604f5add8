"""t-SNE of training and test features of the largest and the smallest class (supplement)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.engine.stored_features import KeptFeatures, load_features
from procrustean.report.figures.canvas import INK, LARGEST, SMALLEST, Figure, frame, legend, line_key, sheet, title
from procrustean.report.figures.panels import Panel, extreme_names


def tsne(panels: Sequence[Panel]) -> Figure:
    """One panel per setting, of its first run: circles are training images, crosses test images."""
    figure, (axes,) = sheet(1, len(panels), height=2.7, share_y=False)
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
        frame(axis)
        title(axis, panel.title, f"epoch {kept.epoch}")
    handles = [line_key(colour, linewidth=0, marker="s", markersize=8) for colour in (LARGEST, SMALLEST)]
    handles += [line_key(INK, linewidth=0, marker=marker, markersize=6) for marker in ("o", "x")]
    legend(figure, handles, [*extreme_names(panels), "training", "test"])
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
