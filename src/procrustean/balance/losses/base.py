"""What the losses have in common: how they are called, their precision, their reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.class_buffers import HoldsConstants
from procrustean.balance.label_range import check_label_range
from procrustean.balance.losses.properties import States
from procrustean.balance.precision import widened
from procrustean.base.errors import DataError, one_of

Reduction = Literal["mean", "none"]


#: A label that cannot be: no sample is left out.
NO_LABEL = -(2**62)


class Loss(States, HoldsConstants):
    """A loss of scores [B, C] and class indices [B]; a subclass says what each sample costs.

    Args:
        classes: number of classes the loss was made for; None takes any.
        reduction: "mean" over the batch, or "none" for a loss per sample.
    """

    #: Uniforms needed per sample, name -> shape; they follow the labels, a tensor each, in this order.
    draws: Mapping[str, tuple[int, ...]] = {}

    def __init__(self, *, classes: int | None = None, reduction: Reduction = "mean") -> None:
        super().__init__()
        one_of("reduction", reduction, ("mean", "none"))
        self.classes = classes
        self.reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor, *uniforms: Tensor) -> Tensor:
        """The loss, a scalar or [B]; logits are [B, C], labels integers [B], uniforms those of `draws`."""
        self.check(logits, labels)
        self.follow(logits.device)
        losses = self.per_sample(widened(logits), labels.long(), *uniforms)
        return losses.mean() if self.reduction == "mean" else losses

    def _unsaid(self, logits: Tensor, labels: Tensor, *uniforms: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what a sample costs: override per_sample")

    #: The loss of each sample, [B], of logits in float32 or float64, labels in int64 and the uniforms, if any.
    per_sample: Callable[..., Tensor] = _unsaid

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse shapes and types that would broadcast into something else, and labels that name no class."""
        if logits.dim() != 2 or labels.shape != logits.shape[:1]:
            raise DataError(
                f"logits of shape {tuple(logits.shape)} and labels of shape {tuple(labels.shape)} received; "
                "give logits [batch, classes] and one class index per row"
            )
        if labels.is_floating_point() or labels.dtype == torch.bool:
            raise DataError(f"labels of type {labels.dtype} received; give class indices, integers")
        check_label_range(labels, logits.shape[1])
        if self.classes is not None and logits.shape[1] != self.classes:
            raise DataError(f"logits for {logits.shape[1]} classes received by a loss made for {self.classes}")

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}" if self.classes is None else f"classes={self.classes}"


class CrossEntropy(Loss):
    """Softmax cross-entropy, -log softmax(z)_y.

    >>> CrossEntropy()(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        # PyTorch's default would take a label of -100 for a sample that costs nothing, and the mean would count it.
        return F.cross_entropy(logits, labels, reduction="none", ignore_index=NO_LABEL)
