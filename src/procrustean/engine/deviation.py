"""How far the test features of a class lie from its training features (paper, Sec. 5.4, after Ye et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.base.errors import DataError
from procrustean.engine.ratio import check_class_indices

Array = npt.NDArray[Any]

#: Most numbers that are held at once: rounds are worked off in parts where a class is large.
LARGEST_PART = 1 << 24


def feature_deviation(
    train_features: Tensor | Array,
    train_labels: Tensor | Array,
    test_features: Tensor | Array,
    test_labels: Tensor | Array,
    rounds: int = 1000,
    size: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """dis(c): the mean distance between the mean of K training features and the mean of all test features of a class.

    Every feature is scaled to unit length first. The K training images are drawn anew, without replacement, in each
    round, and the distances are averaged. A class that has no images in one of the sets has no deviation: nan.

    Args:
        train_features: [N, d], a tensor or an array, as all four.
        train_labels: [N].
        test_features: [M, d].
        test_labels: [M].
        rounds: R, how often K training images are drawn.
        size: K; by default the size of the smallest class of the training set.
        generator: source of the draws, on the features' device; by default one of its own with a fixed seed.

    Returns:
        [C], C one more than the largest label, float64 for float64 features, else float32.

    >>> one, other = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> feature_deviation(one, torch.tensor([0, 0]), other, torch.tensor([0])).tolist()
    [1.4142135381698608]
    """
    train, train_labels, test, test_labels = (
        torch.as_tensor(given) for given in (train_features, train_labels, test_features, test_labels)
    )
    classes = _checked(train, train_labels, test, test_labels, rounds)
    train_labels, test_labels = train_labels.long(), test_labels.long()
    kind = torch.promote_types(train.dtype, torch.float32)
    train, test = (F.normalize(features.to(kind), dim=1) for features in (train, test))
    counts = torch.bincount(train_labels, minlength=classes).tolist()
    smallest = min(count for count in counts if count)
    size = smallest if size is None else size
    if not 1 <= size <= smallest:
        raise DataError(f"size = {size} received; the smallest class allows 1 to {smallest} images to be drawn")
    if generator is None:
        generator = torch.Generator(train.device).manual_seed(0)
    tested = torch.bincount(test_labels, minlength=classes).tolist()
    deviations = []
    for label in range(classes):
        if counts[label] and tested[label]:
            centre = test[test_labels == label].mean(0)
            deviations.append(_mean_distance(train[train_labels == label], centre, rounds, size, generator))
        else:
            deviations.append(train.new_full((), torch.nan))
    return torch.stack(deviations)


def _mean_distance(rows: Tensor, centre: Tensor, rounds: int, size: int, generator: torch.Generator) -> Tensor:
    """Mean over the rounds of |mean of `size` rows - centre|, 0-d."""
    if len(rows) == size:  # every round draws all of them
        distance: Tensor = (rows.mean(0) - centre).norm()
        return distance
    part = max(1, LARGEST_PART // max(len(rows), size * rows.shape[1]))
    distances = []
    for start in range(0, rounds, part):
        keys = torch.rand(min(part, rounds - start), len(rows), device=rows.device, generator=generator)
        # The positions of the largest of independent keys are a sample without replacement.
        chosen = keys.topk(size, dim=1, sorted=False).indices
        distances.append((rows[chosen].mean(1) - centre).norm(dim=1))
    return torch.cat(distances).mean()


def _checked(train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor, rounds: int) -> int:
    """The number of classes, or a DataError."""
    largest = 0
    for name, features, labels in (("train", train, train_labels), ("test", test, test_labels)):
        if features.dim() != 2 or not features.is_floating_point() or not len(features):
            raise DataError(
                f"{name}_features of {features.dtype} {tuple(features.shape)} received; "
                "give floating-point numbers of shape [images, width], at least one row"
            )
        if len(labels) != len(features):
            raise DataError(f"{len(labels)} {name}_labels received for {len(features)} rows of {name}_features")
        check_class_indices(f"{name}_labels", labels, 1 << 31)
        largest = max(largest, int(labels.long().max()))
    if train.shape[1] != test.shape[1]:
        raise DataError(f"features of width {train.shape[1]} (train) and {test.shape[1]} (test) cannot be compared")
    if rounds < 1:
        raise DataError(f"rounds = {rounds} received; at least one draw is needed")
    return largest + 1
