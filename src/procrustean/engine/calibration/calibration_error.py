"""How far probabilities are from what happens: the expected calibration error."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Of confidence, of equal width from 0 to 1.
BINS = 15


def calibration_error(
    probabilities: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    """Expected calibration error: |accuracy - confidence| of the predicted class, averaged over bins of confidence.

    Args:
        probabilities: [n, C].
        labels: true classes, [n].
        weights: of the images, [n]; equal by default.

    >>> calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1])
    0.4
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels, np.int64)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    inside = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(inside, weights=w * (right - confidence), minlength=BINS)
    return float(round(np.abs(gaps).sum() / w.sum(), 12))


def balancing_weights(labels: npt.ArrayLike, classes: int) -> npt.NDArray[np.float64]:
    """Weights with which every class that occurs counts the same, [n]."""
    y = np.asarray(labels, np.int64)
    return np.asarray(1 / np.bincount(y, minlength=classes)[y])
