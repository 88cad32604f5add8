"""Photographs taken in bursts are told by their features; independent ones, kinds within a class and copies are not."""

from __future__ import annotations

import numpy as np
import pytest

from procrustean.data.feature_pairs import pairs_by_features

PHOTOGRAPHS, WIDTH = 240, 32


def made_up(*, burst: int, within: float) -> tuple[np.ndarray, np.ndarray]:
    """Features in bursts, whose images differ by a share of what two of a class differ by; and the burst of each."""
    random = np.random.default_rng(0)
    of = np.arange(PHOTOGRAPHS) // burst
    scenes = random.normal(size=(PHOTOGRAPHS, WIDTH))[of]
    return (scenes + within * random.normal(size=scenes.shape)).astype(np.float32), of


NAMES = [f"{row}.jpg" for row in range(PHOTOGRAPHS)]
LABELS, SEPARATE = np.repeat([0, 1, 2], [120, 80, 40]), np.arange(PHOTOGRAPHS)


def test_bursts() -> None:
    features, of = made_up(burst=2, within=0.2)
    found = pairs_by_features(features, LABELS, SEPARATE, NAMES)
    assert found is not None
    assert found.of == {name: NAMES[2 * burst] for name, burst in zip(NAMES, of, strict=True)}


@pytest.mark.parametrize(
    ("burst", "within"),
    [
        pytest.param(1, 0.0, id="independent"),
        pytest.param(20, 0.5, id="kinds within a class"),
        pytest.param(2, 1.0, id="hardly alike"),
    ],
)
def test_what_is_no_burst(burst: int, within: float) -> None:
    features, _ = made_up(burst=burst, within=within)
    assert pairs_by_features(features, LABELS, SEPARATE, NAMES) is None


def test_near_duplicates_are_no_pairs() -> None:
    features, of = made_up(burst=2, within=0.2)
    assert pairs_by_features(features, LABELS, of, NAMES) is None


def test_images_of_two_classes_are_no_pair() -> None:
    features, _ = made_up(burst=2, within=0.2)
    assert pairs_by_features(features, np.arange(PHOTOGRAPHS) % 2, SEPARATE, NAMES) is None


def test_of_few_images_nothing_is_said() -> None:
    features, _ = made_up(burst=2, within=0.2)
    assert pairs_by_features(features[:98], LABELS[:98], SEPARATE[:98], NAMES) is None
    assert pairs_by_features(features[:100], LABELS[:100], SEPARATE[:100], NAMES) is not None
