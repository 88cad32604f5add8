"""A head that is solved to the end is logistic regression, and its penalty is chosen on images that are left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from procrustean.engine.linear_head import STRENGTHS, chosen_strength, solved

COUNTS = (40, 12, 5)


def blobs(spread: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features [n, 1, 6] of three classes around centres, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), COUNTS)
    centres = np.random.default_rng(7).normal(size=(3, 6))
    points = centres[labels] + spread * random.normal(size=(len(labels), 6))
    return torch.from_numpy(points).float()[:, None], torch.from_numpy(labels)


@pytest.mark.parametrize("strength", [0.01, 0.3])
def test_it_is_logistic_regression(strength: float) -> None:
    features, labels = blobs(0.7)
    weight, bias = solved(features, labels, torch.zeros(3), strength)
    reference = LogisticRegression(C=strength, max_iter=2000, tol=1e-8).fit(features[:, 0].numpy(), labels.numpy())
    found = torch.softmax(features[:, 0] @ weight.T + bias, 1).numpy()
    np.testing.assert_allclose(found, reference.predict_proba(features[:, 0].numpy()), atol=2e-3)


def test_class_sizes_are_taken_out_of_the_scores() -> None:
    features, labels = blobs(0.7)
    log_prior = (torch.tensor(COUNTS).float() / sum(COUNTS)).log()
    plain, with_prior = (solved(features, labels, prior, 0.3) for prior in (torch.zeros(3), log_prior))
    # The bias is not penalised, so it takes up the prior whole.
    torch.testing.assert_close(
        with_prior[1] + log_prior - (plain[1] + (with_prior[1] + log_prior - plain[1]).mean()),
        torch.zeros(3),
        atol=0.02,
        rtol=0,
    )
    torch.testing.assert_close(with_prior[0], plain[0], atol=0.02, rtol=0)


def test_noise_asks_for_a_stronger_penalty() -> None:
    clear, noisy = (chosen_strength(*blobs(spread), np.arange(sum(COUNTS))) for spread in (0.2, 3.0))
    assert noisy.strength < clear.strength
    assert clear.loss < noisy.loss


def test_each_class_counts_alike_on_images_left_out() -> None:
    features, labels = blobs(0.7)
    found = chosen_strength(features, labels, np.arange(len(labels)))
    assert found.strength in STRENGTHS
    per_class = [float(found.weights[labels == label].sum()) for label in range(3)]
    np.testing.assert_allclose(per_class, 1 / 3, rtol=1e-5)


def test_a_class_of_one_group_is_not_judged_and_ends_nothing() -> None:
    features, labels = blobs(0.7)
    groups = np.where(labels.numpy() == 2, 1000, np.arange(len(labels)))
    found = chosen_strength(features, labels, groups)
    assert found.weights[labels == 2].sum() == 0
    assert float(found.weights.sum()) == pytest.approx(1)
    assert found.loss < 2
    alone = chosen_strength(features, labels, np.zeros(len(labels), np.int64))
    assert (alone.strength, alone.loss) == (STRENGTHS[len(STRENGTHS) // 2], 0)
