"""The interval of a headline covers what other images say about as often as it promises."""

from __future__ import annotations

import numpy as np
import pytest

from procrustean.balance.interval import bootstrap_interval

RECALLS, SIZES = np.array([0.95, 0.8, 0.6, 0.5]), np.array([60, 30, 12, 6])
TRUTH = list(zip(SIZES, RECALLS, strict=True))


def drawn(seed: int, per_group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of four classes in groups of equal images, and the groups."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), SIZES)
    right = np.concatenate([np.repeat(random.random(n // per_group) < p, per_group) for n, p in TRUTH])
    return right, labels, np.arange(len(labels)) // per_group


@pytest.mark.parametrize("per_group", [1, 3])
def test_it_covers_the_truth(per_group: int) -> None:
    inside = 0
    for seed in range(200):
        right, labels, groups = drawn(seed, per_group)
        low, high = bootstrap_interval(right, labels, None if per_group == 1 else groups)
        inside += low <= RECALLS.mean() <= high
    assert 0.87 < inside / 200 < 0.99  # of 6 images in 2 groups nobody knows much


def test_groups_widen_it() -> None:
    right, labels, groups = drawn(0, 3)
    (low, high), (low_alone, high_alone) = (bootstrap_interval(right, labels, given) for given in (groups, None))
    assert high - low > 1.3 * (high_alone - low_alone)


def test_groups_of_one_image_are_images() -> None:
    right, labels, _ = drawn(0, 1)
    one, other = (bootstrap_interval(right, labels, given) for given in (np.arange(len(labels)), None))
    assert np.allclose(one, other, atol=0.02)


def test_it_is_the_same_each_time_and_holds_what_was_measured() -> None:
    right, labels, _ = drawn(1, 1)
    low, high = bootstrap_interval(right, labels)
    assert (low, high) == bootstrap_interval(right, labels)
    measured = np.mean([right[labels == label].mean() for label in range(4)])
    assert low < measured < high
    assert bootstrap_interval(right, labels, headline="accuracy")[0] > low


def test_a_few_right_answers_are_no_certainty() -> None:
    low, high = bootstrap_interval(np.ones(6, bool), np.array([0, 0, 0, 1, 1, 1]))
    assert high == 1
    assert 0.5 < low < 0.95
