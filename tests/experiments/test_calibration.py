"""The choice of how strongly calibration holds the scale back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from procrustean.calibration.scaling import SCALE_WEIGHT

from .scripts import PROJECT, script

study = script("calibration")


@pytest.mark.parametrize("sharpness", [0.2, 5.0])
def test_a_weight_that_hinders_costs_log_loss(sharpness: float) -> None:
    random = np.random.default_rng(0)
    means = np.array([-1.0, 0.0, 1.0])
    labels = random.choice(3, 300, p=[0.6, 0.3, 0.1])
    likelihood = -0.5 * (means[labels][:, None] + random.normal(size=(300, 1)) - means) ** 2
    scores = sharpness * (likelihood + np.log([0.6, 0.3, 0.1]))
    free, hindered = (study.cross_validated(scores, labels, [60, 30, 10], weight) for weight in (1.0, 1e6))
    assert free < hindered - 0.01


def test_the_library_uses_the_weight_that_was_best() -> None:
    record = json.loads((PROJECT / "results/calibration.json").read_text())
    losses = {float(weight): found["log_loss"] for weight, found in record["weights"].items()}
    assert min(losses, key=losses.__getitem__) == record["best"] == SCALE_WEIGHT
