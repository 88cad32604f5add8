from __future__ import annotations

import math

import numpy as np
import pytest

from procrustean.base import DataError
from procrustean.base.json_files import parse_json, to_typed, typed_json
from procrustean.engine.probabilities import (
    Calibration,
    balancing_weights,
    calibrate,
    calibration_error,
    log_loss,
    uncalibrated,
)
from procrustean.records.run_record import CalibrationRecord

HALF = np.array([0.5, 0.5])


def test_adjusting_a_prior_by_hand() -> None:
    # Three of four training images are of class 0, and the network says 50 : 50. Where both are equally frequent,
    # that is (0.5 / 0.75) : (0.5 / 0.25) = 1 : 3; where nine of ten are of class 0, 0.6 : 0.2.
    plain = Calibration(1.0, 0.0, (3, 1), 10)
    scores = [[0.7, 0.7]]
    assert np.exp(plain.log_probabilities(scores, np.array([0.75, 0.25]))) == pytest.approx(np.array([[0.5, 0.5]]))
    assert np.exp(plain.log_probabilities(scores, HALF)) == pytest.approx(np.array([[0.25, 0.75]]))
    assert np.exp(plain.log_probabilities(scores, np.array([0.9, 0.1]))) == pytest.approx(np.array([[0.75, 0.25]]))


def test_scores_without_the_prior_get_it_back_by_hand() -> None:
    corrected = Calibration(1.0, 1.0, (3, 1), 10)
    assert np.exp(corrected.log_probabilities([[2.0, 2.0]], HALF)) == pytest.approx(np.array([[0.5, 0.5]]))
    train = np.array([0.75, 0.25])
    assert np.exp(corrected.log_probabilities([[2.0, 2.0]], train)) == pytest.approx(np.array([[0.75, 0.25]]))
    assert corrected.own_prior == pytest.approx(HALF)
    assert Calibration(1.0, 0.5, (9, 1), 1).own_prior == pytest.approx(np.array([0.75, 0.25]))


def test_without_a_prior_the_largest_score_wins_and_the_scale_divides() -> None:
    found = Calibration(0.5, 0.8, (99, 1), 10).log_probabilities([[2.0, 4.0]])
    assert np.exp(found)[0, 1] == pytest.approx(1 / (1 + math.exp(-1)))


def test_the_prior_that_the_scores_stand_for_changes_nothing() -> None:
    found = Calibration(0.7, 0.4, (90, 9, 1), 10)
    scores = np.random.default_rng(0).normal(size=(5, 3))
    assert found.log_probabilities(scores, found.own_prior) == pytest.approx(found.log_probabilities(scores))


def test_a_class_that_does_not_occur_has_probability_0() -> None:
    found = np.exp(uncalibrated((5, 5)).log_probabilities([[9.0, 0.0]], np.array([0.0, 1.0])))
    assert found.tolist() == [[0.0, 1.0]]


def simulated(temperature: float, tau: float, held_out: list[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a perfect network, too sharp and with a part of the prior taken out; classes in one dimension."""
    random = np.random.default_rng(seed)
    means, log_prior = np.array([-1.0, 0.5, 2.0]), np.log(np.array([900, 90, 10]) / 1000)
    labels = random.choice(3, 40_000, p=held_out)
    x = random.normal(means[labels])
    likelihood = -0.5 * (x[:, None] - means) ** 2
    return temperature * (likelihood + (1 - tau) * log_prior), labels


@pytest.mark.parametrize("held_out", [[0.9, 0.09, 0.01], [0.4, 0.3, 0.3]])
@pytest.mark.parametrize(("temperature", "tau"), [(1.0, 0.0), (3.0, 0.0), (0.05, 0.0), (2.0, 0.6), (1.0, 1.0)])
def test_the_truth_is_found_whatever_the_held_out_frequencies(
    temperature: float, tau: float, held_out: list[float]
) -> None:
    found = calibrate(*simulated(temperature, tau, held_out), [900, 90, 10])
    assert 1 / found.scale == pytest.approx(temperature, rel=0.05)
    assert found.tau == pytest.approx(tau, abs=0.05)
    assert found.images == 40_000


def slow_loss(scale: float, tau: float, z: np.ndarray, y: np.ndarray, counts: list[int]) -> float:
    """The objective once more, image by image."""
    seen = sorted(set(y.tolist()))
    total = math.log(scale) ** 2 / 2 + (tau - 0.5) ** 2 / 2
    for row, label in zip(z, y, strict=True):
        logits = {
            c: scale * row[c]
            + (tau - 1) * math.log(counts[c] / sum(counts))
            + math.log(sum(int(v == c) for v in y) / len(y))
            for c in seen
        }
        total -= logits[label] - math.log(sum(math.exp(v) for v in logits.values()))
    return total / len(y)


def test_no_neighbour_is_better() -> None:
    random = np.random.default_rng(1)
    z, y, counts = random.normal(size=(30, 4)), random.choice([0, 1, 3], 30), [50, 20, 10, 5]
    z[np.arange(30), y] += 1.5
    found = calibrate(z, y, counts)
    best = slow_loss(found.scale, found.tau, z, y, counts)
    for scale, tau in ((0.02, 0), (-0.02, 0), (0, 0.02), (0, -0.02)):
        assert slow_loss(found.scale + scale, found.tau + tau, z, y, counts) > best - 1e-9


def test_images_that_are_all_right_keep_the_scale_finite() -> None:
    z = np.array([[5.0, 0.0], [0.0, 5.0]] * 10)
    found = calibrate(z, [0, 1] * 10, [10, 10])
    assert 0.1 < found.scale < 20
    assert found.own_prior == pytest.approx(HALF)  # whatever tau is, there is nothing to put back


def test_calibrating_improves_the_log_loss_and_survives_json() -> None:
    scores, labels = simulated(4.0, 0.0, [0.9, 0.09, 0.01])
    found = calibrate(scores, labels, [900, 90, 10])
    before = log_loss(uncalibrated([900, 90, 10]).log_probabilities(scores), labels)
    assert log_loss(found.log_probabilities(scores), labels) < before - 0.1
    again = Calibration.of(to_typed(parse_json(typed_json(found.record({}))), CalibrationRecord))
    assert again.scale == pytest.approx(found.scale)
    assert (again.tau, again.counts, again.images) == (found.tau, found.counts, found.images)
    assert again.tau_error == found.tau_error
    assert again.held_out == found.held_out


@pytest.mark.parametrize(("corrected", "expected"), [(False, 0.5), (True, 1.0)])
def test_held_out_classes_of_one_size_leave_tau_to_the_method(corrected: bool, expected: float) -> None:
    scores = np.random.default_rng(0).normal(size=(30, 4))
    found = calibrate(scores, np.arange(30) % 2, [500, 500, 3, 3], corrected=corrected)
    assert found.tau == pytest.approx(expected)
    assert found.tau_error == pytest.approx(1)  # all that the prior leaves open


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_held_out_classes_of_nearly_one_size_do_not_drive_tau_to_its_bounds(tau: float) -> None:
    counts = [120, 118, 119, 117, 115, 3, 3, 3]
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        labels = np.arange(90) % 5
        means = 1.5 * np.eye(8)
        x = random.normal(means[labels])
        likelihood = -0.5 * ((x[:, None] - means) ** 2).sum(-1)
        scores = likelihood + (1 - tau) * np.log(np.array(counts) / sum(counts))
        found.append(calibrate(scores, labels, counts))
    assert all(-0.2 < one.tau < 1.2 for one in found)
    assert all(one.tau_error is not None and one.tau_error > 0.95 for one in found)


def test_the_error_of_tau_is_its_spread_over_held_out_sets() -> None:
    found = []
    for seed in range(200):
        scores, labels = simulated(1.0, 0.5, [0.6, 0.3, 0.1], seed)
        found.append(calibrate(scores[:400], labels[:400], [900, 90, 10], tau_weight=1e-6, scale_weight=1e-6))
    errors = [one.tau_error for one in found if one.tau_error is not None]
    assert len(errors) == 200
    assert np.std([one.tau for one in found]) == pytest.approx(np.mean(errors), rel=0.15)


def test_scores_are_taken_as_the_loss_takes_them() -> None:
    scores, labels = simulated(1.0, 0.3, [0.4, 0.3, 0.3])
    one, few = calibrate(scores, labels, [900, 90, 10]), slice(0, 6)
    cosines = calibrate(scores / 30, labels, [900, 90, 10], scale=30)
    assert cosines.scale == pytest.approx(30 * one.scale, rel=1e-4)
    assert cosines.tau == pytest.approx(one.tau, abs=1e-4)
    # Of few images the prior says most, and it must not pull towards a scale of 1.
    assert calibrate(scores[few] / 30, labels[few], [900, 90, 10], scale=30).scale == pytest.approx(
        30 * calibrate(scores[few], labels[few], [900, 90, 10]).scale, rel=1e-3
    )


def test_one_class_is_not_enough() -> None:
    with pytest.raises(DataError, match=r"held-out images of 1 class\(es\)"):
        calibrate([[1.0, 0.0]], [0], [5, 5])


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
