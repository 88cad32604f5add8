"""The choice of how strongly calibration holds the scale and tau back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from procrustean.engine.probabilities import SCALE_WEIGHT, TAU_WEIGHT, calibrate

from .scripts import PROJECT, script

study = script("calibration")


@pytest.mark.parametrize("sharpness", [0.2, 5.0])
def test_a_weight_that_hinders_costs_log_loss(sharpness: float) -> None:
    random = np.random.default_rng(0)
    means = np.array([-1.0, 0.0, 1.0])
    labels = random.choice(3, 300, p=[0.6, 0.3, 0.1])
    likelihood = -0.5 * (means[labels][:, None] + random.normal(size=(300, 1)) - means) ** 2
    scores = sharpness * (likelihood + np.log([0.6, 0.3, 0.1]))
    free, hindered = (study.cross_validated(scores, labels, [60, 30, 10], scale_weight=weight) for weight in (1.0, 1e6))
    assert free < hindered - 0.01


def test_classes_without_held_out_images_are_judged_too() -> None:
    random = np.random.default_rng(0)
    counts, means = [100, 99, 98, 2], np.array([-1.0, 0.0, 1.0, 2.0])
    labels = np.arange(400) % 4
    likelihood = -0.5 * (random.normal(means[labels])[:, None] - means) ** 2
    scores = likelihood + np.log(np.array(counts) / sum(counts))
    large = labels < 3
    wild = calibrate(scores[large], labels[large], counts, tau_weight=1e-6)
    held = calibrate(scores[large], labels[large], counts, tau_weight=TAU_WEIGHT)
    by_hand = held.log_probabilities(scores, np.full(4, 0.25))[np.arange(400), labels].reshape(100, 4).mean()
    assert study.balanced_log_loss(held, scores, labels) == pytest.approx(-by_hand)
    assert study.balanced_log_loss(held, scores, labels) < study.balanced_log_loss(wild, scores, labels) - 0.05


@pytest.mark.parametrize(("prior", "used"), [("scale", SCALE_WEIGHT), ("tau", TAU_WEIGHT)])
def test_the_library_uses_the_weight_that_was_best(prior: str, used: float) -> None:
    record = json.loads((PROJECT / "results/calibration.json").read_text())[prior]
    losses = {
        float(weight): found["log_loss"] + record["across_classes"][weight]["log_loss"]
        for weight, found in record["across_images"].items()
    }
    assert min(losses, key=losses.__getitem__) == record["best"] == used
