from __future__ import annotations

import numpy as np
import pytest

from procrustean.engine.probabilities import balancing_weights, calibration_error


def slow_error(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, bins: int) -> float:
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        mass = right = confidence = 0.0
        for p, label, weight in zip(probabilities, labels, weights, strict=True):
            top = max(p)
            if low <= top < high or (number == bins - 1 and top == 1):
                mass += weight
                right += weight * (list(p).index(top) == label)
                confidence += weight * top
        if mass:
            total += mass / weights.sum() * abs(right / mass - confidence / mass)
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_against_loops(weighted: bool) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet([0.4] * 4, 300)
    labels = random.integers(0, 4, 300)
    weights = balancing_weights(labels, 4) if weighted else np.ones(300)
    expected = slow_error(p, labels, weights, 15)
    assert expected > 0.1
    assert calibration_error(p, labels, weights) == pytest.approx(expected, abs=1e-9)


def test_certainty_that_is_right_has_no_error() -> None:
    assert calibration_error([[1.0, 0.0], [0.0, 1.0]], [0, 1]) == 0


def test_balancing_weights_give_every_class_the_same() -> None:
    labels = np.array([0, 0, 0, 2])
    weights = balancing_weights(labels, 3)
    assert weights[labels == 0].sum() == pytest.approx(weights[labels == 2].sum())
