"""Class-balanced loss (Cui et al. 2019): classes weighted by their effective numbers of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from procrustean.balance.losses import CrossEntropy, Focal, Loss
from procrustean.balance.losses import Reduction as LossReduction
from procrustean.balance.objectives import Classify, Reduction
from procrustean.balance.types import Problem
from procrustean.balance.weights import DeferredWeights, FixedWeights, effective_number
from procrustean.base.errors import ConfigError, one_of
from procrustean.data.recipes import ldam_recipe
from procrustean.methods.method import Method, Stage
from procrustean.nets.heads import SigmoidHead

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
        reduction: LossReduction = "mean",
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


def class_balanced(
    problem: Problem,
    *,
    beta: float = 0.9999,
    form: Form = "softmax",
    gamma: float | None = None,
    reduction: Reduction | None = None,
    drw: bool = False,
) -> Method:
    """Cross-entropy or focal loss with effective-number class weights.

    Formula: w_c = (1 - beta) / (1 - beta^N_c), scaled to sum to C; loss = sum_i w_yi * l_i / B;
    l = cross-entropy of the softmax, of one sigmoid per class, or sigmoid focal loss (see focal).

    Args:
        beta: 0 weights all classes alike, towards 1 the weights become inverse frequencies.
        form: l, softmax, sigmoid or focal; the last two sum over all classes, with biases that start at -log(C - 1).
        gamma: focus of the form focal, default 1.
        reduction: divide by the batch size B (mean) or by the sum of the weights (weighted_mean), as LDAM's code does;
            default mean, with drw weighted_mean.
        drw: use the weights only in the last 20 % of the epochs.
    """
    if drw and beta == 0:
        raise ConfigError("beta = 0 received with drw; it weights all classes alike, so there is nothing to defer")
    loss = ClassBalanced(problem.counts, beta, form=form, gamma=gamma, reduction="none")
    # Cui et al. divide by the batch size. With the weights on from the first epoch that is their method;
    # deferred weights follow Cao et al., who divide by the sum of the weights.
    reduction = reduction or ("weighted_mean" if drw else "mean")
    if reduction == "mean" and not drw:
        objective = Classify(loss=loss)
    else:
        weight = DeferredWeights(loss.weights) if drw else FixedWeights(loss.weights)
        objective = Classify(loss=loss.unweighted, weight=weight, reduction=reduction)
    return Method(
        # Weight decay would pull the biases of sigmoids towards a probability of one half (Cui et al. 2019).
        stages=(Stage(objective, no_decay=() if form == "softmax" else ("head.bias",)),),
        label="CB" + f"-{form}" * (form != "softmax") + "-DRW" * drw,
        head=None if form == "softmax" else SigmoidHead,
        own=ldam_recipe(problem.source),
        resolved={
            "reduction": reduction,
            "gamma": (1.0 if gamma is None else gamma) if form == "focal" else f"none, form is {form}",
        },
    )
