from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustean.base import DataError
from procrustean.engine import classification_ratio

pairs = st.integers(1, 6).flatmap(
    lambda classes: st.tuples(
        st.just(classes),
        st.lists(st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1)), min_size=1, max_size=60),
    )
)


@given(pairs)
def test_ratios_are_counted_and_weighted_by_class_sizes_they_sum_to_the_images(case: tuple[int, list]) -> None:
    classes, images = case
    predictions, labels = (torch.tensor(column) for column in zip(*images, strict=True))
    ratios = classification_ratio(predictions, labels, classes)
    assert ratios.shape == (classes,)
    total = 0.0
    for label, ratio in enumerate(ratios.tolist()):
        own = sum(true == label for _, true in images)
        predicted = sum(guess == label for guess, _ in images)
        if own:
            assert ratio == pytest.approx(predicted / own)
            total += own * ratio
        else:
            assert ratio != ratio  # nan: the class has no images to compare with
            total += predicted
    assert total == pytest.approx(len(images))


def test_the_papers_example() -> None:
    labels = torch.tensor([0] * 100 + [1] * 50)
    predictions = torch.tensor([0] * 50 + [1] * 100)
    assert classification_ratio(predictions, labels, 2).tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("predictions", "labels", "message"),
    [
        (torch.tensor([0, 3]), torch.tensor([0, 1]), "labels from 0 to 3 received, but there are 3 classes"),
        (torch.tensor([0, 1]), torch.tensor([-1, 1]), "labels from -1 to 1 received"),
        (torch.tensor([0]), torch.tensor([0, 1]), "1 predictions received for 2 labels"),
    ],
)
def test_what_are_no_classes_is_refused(predictions: torch.Tensor, labels: torch.Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classification_ratio(predictions, labels, 3)


def test_scores_are_no_predictions() -> None:
    with pytest.raises(RuntimeError, match="bincount"):
        classification_ratio(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), 3)
