"""How often a class is predicted, relative to how often it is right (paper, Fig. 1 b)."""

from __future__ import annotations

import torch
from torch import Tensor

from procrustean.base.errors import DataError


def classification_ratio(predictions: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Images classified into each class, divided by the images of the class; 1 is balanced.

    Weighted by the class sizes, the ratios add up to the number of images. A class without images has none: nan.

    Args:
        predictions: predicted classes [N].
        labels: true classes [N].
        classes: C.

    Returns:
        float64 [C].

    >>> classification_ratio(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]), 2).tolist()
    [1.5, 0.5]
    """
    for name, values in (("predictions", predictions), ("labels", labels)):
        check_class_indices(name, values, classes)
    if len(predictions) != len(labels):
        raise DataError(f"{len(predictions)} predictions received for {len(labels)} labels; give one for each image")
    own = torch.bincount(labels.long(), minlength=classes).double()
    return torch.bincount(predictions.long(), minlength=classes) / own.where(own > 0, torch.nan)


def check_class_indices(name: str, values: Tensor, classes: int) -> None:
    """DataError unless the values are class indices, [N] from 0 to C - 1."""
    whole = isinstance(values, Tensor) and not (values.is_floating_point() or values.is_complex())
    if not whole or values.dim() != 1 or values.dtype == torch.bool:
        found = f"{values.dtype} {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise DataError(f"{name} of {found} received; give a tensor of class indices, integers of shape [N]")
    # As int64: PyTorch compares no unsigned integers of 16 bits or more.
    low, high = (int(value) for value in values.long().aminmax()) if values.numel() else (0, 0)
    if low < 0 or high >= classes:
        raise DataError(f"{name} from {low} to {high} received; {classes} classes allow 0 to {classes - 1}")
