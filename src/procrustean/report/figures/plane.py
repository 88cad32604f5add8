"""Features in the plane with the regions of the classifier, along the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.engine.stored_features import KeptFeatures, kept_epochs, load_features
from procrustean.records.run_record import Result
from procrustean.report.figures import canvas
from procrustean.report.figures.canvas import COLOURS, INK, MARKERS, MUTED, Axes, Figure

#: Points per class and panel, so that the panels are not crowded.
MOST_POINTS = 50
_GRID = 400


def plane(results: Sequence[Result], *, epochs: Sequence[int] = ()) -> Figure:
    """Training features above, test features below, one column per epoch, on the regions of the classifier.

    Args:
        results: a single run, with features of width 2.
        epochs: which, counted from 1; all that were kept, if nothing is said.
    """
    (result,) = results
    if result.path is None:
        raise RunError(f"{result.label} was never saved, so it has no features to draw")
    shown = [_in_the_plane(result.path.parent, epoch) for epoch in _epochs(result.path.parent, epochs)]
    classes = result.data.classes
    if len(classes) > len(COLOURS):
        raise RunError(f"{len(classes)} classes are too many to tell apart in the plane; draw {len(COLOURS)} or fewer")
    figure, axes = canvas.sheet(2, len(shown), width=2.35, height=2.3, share_y=False, margin=(0.4, 0.8))
    for column, kept in enumerate(shown):
        limits = _limits(kept)
        for row, (features, labels) in enumerate(((kept.train, kept.train_labels), (kept.test, kept.test_labels))):
            _draw(axes[row][column], kept, features, labels, limits, len(classes))
        axes[0][column].set_title(f"Epoch {kept.epoch}", fontsize=10.5, color=INK)
    canvas.axis_labels(axes[0][0], y="training")
    canvas.axis_labels(axes[1][0], y="test")
    counts = result.data.counts
    handles = [
        canvas.line_key(COLOURS[c], marker=MARKERS[c], linewidth=0, markersize=7, markeredgecolor=INK)
        for c in range(len(classes))
    ]
    names = [f"{canvas.shortened(name)} ({n:,} training images)" for name, n in zip(classes, counts, strict=True)]
    canvas.legend(figure, handles, names)
    metrics, length = result.record.selections.last.metrics, result.record.recipe.epochs
    accuracy = f"{metrics.headline.replace('_', ' ')} {100 * metrics.headline_value:.1f} %"
    figure.suptitle(
        f"{result.label}: test {accuracy}{' ' if len(shown) > 2 else chr(10)}after all {length} epochs",
        x=0.01,
        ha="left",
        fontsize=10,
        color=MUTED,
        parse_math=False,
    )
    return figure


def regions(kept: KeptFeatures, limits: tuple[float, float, float, float], steps: int = _GRID) -> npt.NDArray[Any]:
    """The class that the linear layer gives each point of a grid over the plane, [steps, steps], rows along y."""
    assert kept.head_weight is not None
    assert kept.head_bias is not None
    x, y = np.meshgrid(np.linspace(limits[0], limits[1], steps), np.linspace(limits[2], limits[3], steps))
    scores = np.stack([x, y], axis=-1) @ kept.head_weight.T + kept.head_bias
    return np.asarray(scores.argmax(-1))


def _epochs(run: Path, wanted: Sequence[int]) -> Sequence[int]:
    if wanted:
        return wanted
    known = kept_epochs(run)
    if not known:
        load_features(run)  # says what is missing
    return known


def _in_the_plane(run: Path, epoch: int) -> KeptFeatures:
    kept = load_features(run, epoch)
    if kept.train.shape[1] != 2 or kept.head_weight is None or kept.head_bias is None:
        raise RunError(
            f"the features of {run} have width {kept.train.shape[1]}, not 2 with a linear layer behind them; "
            "train with --net resnet32-2d or small-2d"
        )
    return kept


def _limits(kept: KeptFeatures) -> tuple[float, float, float, float]:
    """What both panels of an epoch show: all but the outermost points, with a margin."""
    features = np.concatenate([kept.train, kept.test])
    low, high = np.percentile(features, [0.5, 99.5], axis=0)
    middle, half = (low + high) / 2, 0.58 * max(float((high - low).max()), 1e-6)
    return middle[0] - half, middle[0] + half, middle[1] - half, middle[1] + half


def _draw(
    axis: Axes,
    kept: KeptFeatures,
    features: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    limits: tuple[float, float, float, float],
    classes: int,
) -> None:
    canvas.regions_picture(axis, regions(kept, limits), limits, classes)
    for label in range(classes):
        points = features[labels == label][:MOST_POINTS]
        axis.scatter(
            points[:, 0],
            points[:, 1],
            s=17,
            marker=MARKERS[label],
            color=COLOURS[label],
            edgecolors=INK,
            linewidths=0.35,
            zorder=3 + label / classes,
        )
    canvas.frame(axis)
