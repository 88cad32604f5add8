from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from procrustean import fit
from procrustean.engine.probabilities import (
    Calibration,
    balancing_weights,
    calibration_error,
    log_softmax,
    uncalibrated,
)
from procrustean.engine.stored_calibration import judged


def test_each_error_is_for_the_class_frequencies_it_says() -> None:
    """A method has taken half of the prior out of its scores; the images are as frequent as in training."""
    random = np.random.default_rng(0)
    counts = np.array([900, 90, 10])
    pi = counts / counts.sum()
    labels = random.choice(3, 5000, p=pi)
    means = np.array([-1.0, 0.5, 2.0])
    likelihood = -0.5 * (random.normal(means[labels])[:, None] - means) ** 2
    found = Calibration(0.5, 0.5, tuple(counts.tolist()), 100)
    scores = 2 * (likelihood + 0.5 * np.log(pi))
    errors = judged(uncalibrated(found.counts), found, scores, labels, pi)

    def error_for(frequencies: np.ndarray, weights: np.ndarray | None = None) -> float:
        return calibration_error(np.exp(log_softmax(likelihood + np.log(frequencies))), labels, weights)

    assert errors["ece"] == pytest.approx(error_for(pi), abs=1e-9)
    assert errors["ece_default"] == pytest.approx(error_for(np.sqrt(pi)), abs=1e-9)
    assert errors["ece_balanced"] == pytest.approx(error_for(np.ones(3), balancing_weights(labels, 3)), abs=1e-9)
    assert errors["ece_before"] == pytest.approx(calibration_error(np.exp(log_softmax(scores)), labels), abs=1e-9)
    assert errors["ece"] < 0.02 < 0.05 < errors["ece_default"]  # only the frequencies of the images are right for them


def test_a_loss_that_corrects_is_not_corrected_again_where_no_small_class_is_held_out(tmp_path: Path) -> None:
    settings = {"imbalance": "step", "rho": 40, "hold_out": 3, "net": "small", "epochs": 1, "device": "cpu"}
    run = fit("digits", method="balanced_softmax", run_dir=tmp_path / "run", **settings)
    assert run.record.data.counts == [97] * 5 + [2] * 5
    assert run.record.calibration.tau == pytest.approx(1, abs=1e-12)  # the search for it may round the last bit


def test_before_calibration_is_what_the_loss_makes_of_the_scores(tmp_path: Path) -> None:
    """The scores of LDAM are cosines, which its loss multiplies by 30."""
    settings = {"imbalance": "step", "rho": 3, "hold_out": 0.15, "net": "small", "epochs": 12, "device": "cpu"}
    found = fit("digits", method="ldam", run_dir=tmp_path / "run", **settings).record.calibration
    lowest_of_bare_cosines = np.log(1 + 9 * np.exp(-2))  # right with 1, and nine others with -1
    assert found.test["log_loss_before"] < lowest_of_bare_cosines
    assert found.temperature < 0.2
