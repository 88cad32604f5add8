"""Class-balanced loss (Cui et al. 2019): samples weighted by the effective number of images of their class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from procrustean.balance.losses.base import CrossEntropy, Loss, Reduction
from procrustean.balance.losses.focal import Focal
from procrustean.balance.weights import effective_number
from procrustean.base.errors import ConfigError, one_of

Form = Literal["softmax", "sigmoid", "focal"]


class ClassBalanced(Loss):
    """w_y * l with w_c = (1 - beta) / (1 - beta^n_c), scaled to sum to C; the mean divides by the batch size.

    Args:
        counts: training images per class, index = label.
        beta: 0 weights all classes alike, towards 1 the weights become inverse frequencies.
        form: l: "softmax" cross-entropy, "sigmoid" cross-entropy summed over the classes, or "focal", the sigmoid
            form of `Focal`. In the latter two the weight of the label multiplies the terms of all classes.
        gamma: focus of the focal form, 1 by default; the other forms have none.
        reduction: "mean" or "none".

    >>> ClassBalanced([4, 1], beta=0.5).weights
    tensor([0.6957, 1.3043])
    """

    weights_classes = True
    weights: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        beta: float = 0.9999,
        *,
        form: Form = "softmax",
        gamma: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        one_of("form", form, ("softmax", "sigmoid", "focal"))
        if gamma is not None and form != "focal":
            raise ConfigError(f"gamma = {gamma!r} received with form = {form!r}; only form 'focal' has a focus")
        self.hold("weights", lambda: effective_number(counts, beta))
        self.unweighted: Loss
        if form == "softmax":
            self.unweighted = CrossEntropy(reduction="none")
        else:
            focus = 0.0 if form == "sigmoid" else 1.0 if gamma is None else gamma
            self.unweighted = Focal(focus, form="sigmoid", reduction="none")

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses: Tensor = self.unweighted(logits, labels)
        return self.weights[labels] * losses
