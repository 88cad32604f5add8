"""What samplers return is checked: a wrong number of indices would train on other images, without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from procrustean.base import ConfigError, Stream
from procrustean.data import EpochPlanner
from procrustean.data.augment.settings import Augmentation
from procrustean.data.epoch_plan import sampled

LABELS = np.repeat(np.arange(5), (8, 4, 2, 1, 1))  # 16 images


def every_class_as_often(labels: Any, count: int, stream: Stream) -> Any:
    """Oversampling that does not look at `count`."""
    return np.concatenate([np.resize(np.flatnonzero(labels == c), 8) for c in range(5)])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda count: np.arange(count - 3), "returned 13 indices from 0 to 12; 16 indices are needed"),
        (lambda count: np.arange(count) + 2, "returned 16 indices from 0 to 17; .* whole numbers from 0 to 15"),
        (lambda count: np.arange(count) - 1, "returned 16 indices from -1 to 14;"),
        (lambda count: np.arange(count) * 1.0, r"returned float64 \(16,\); 16 indices are"),
        (lambda count: np.ones(count, bool), "returned bool"),
        (lambda count: np.zeros((count, 1), int), r"returned int64 \(16, 1\)"),
        (lambda count: None, r"returned object \(\); 16 indices are needed"),
    ],
)
def test_other_returns_are_refused(returned: Callable[[int], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"the sampler <lambda> \(test_sampled.py, line \d+\) {message}"):
        sampled(lambda labels, count, stream: returned(count), LABELS, 16, Stream(0))


@pytest.mark.parametrize("make", [list, tuple, torch.tensor, lambda indices: np.array(indices, np.int32)])
def test_the_order_is_kept_whatever_holds_the_indices(make: Callable[[list[int]], Any]) -> None:
    order = [15, 0, 0, 7, 3]
    found = sampled(lambda labels, count, stream: make(order), LABELS, 5, Stream(0))
    assert (found.tolist(), found.dtype) == (order, np.int64)


@pytest.mark.parametrize("stream", ["sampler", "extra"])
def test_a_plan_is_not_made_of_too_many(stream: str) -> None:
    augmentation = Augmentation((8, 8), (8, 8), (8, 8))
    planner = EpochPlanner(LABELS, 4, augmentation, **{stream: every_class_as_often})  # type: ignore[arg-type]
    message = r"the sampler every_class_as_often \(test_sampled.py, line \d+\) returned 40 indices from 0 to 15; 16"
    with pytest.raises(ConfigError, match=message):
        planner.draw(seed=0, stage=0, epoch=0)
