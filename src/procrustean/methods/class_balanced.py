"""Class-balanced loss (Cui et al. 2019): classes weighted by their effective numbers of images."""

from __future__ import annotations

from ..objectives import Classify, CrossEntropy
from ..recipes import ldam_schedule
from ..types import Problem
from ..weights import DeferredWeights, FixedWeights, effective_number
from .base import Method, Stage
from .focal import FocalLoss


def class_balanced(problem: Problem, *, beta: float = 0.9999, gamma: float = 0.0, drw: bool = False) -> Method:
    """Cross-entropy (or focal loss) with effective-number class weights.

    Formula: w_c = (1 - beta) / (1 - beta^N_c), scaled to sum to C; loss = sum_i w_yi * l_i / B.

    Args:
        beta: 0 weights all classes alike, towards 1 the weights become inverse frequencies.
        gamma: focus of the softmax focal loss under the weights; 0 is cross-entropy.
        drw: use the weights only in the last 20 % of the epochs.
    """
    weights = effective_number(problem.counts, beta)
    objective = Classify(
        loss=FocalLoss(gamma) if gamma else CrossEntropy(),
        weight=DeferredWeights(weights) if drw else FixedWeights(weights),
        # Cui et al. divide by the batch size. With the weights on from the first epoch that is their method;
        # deferred weights follow Cao et al., who divide by the sum of the weights.
        reduction="weighted_mean" if drw else "mean",
    )
    label = "CB" + "-focal" * bool(gamma) + "-DRW" * drw
    return Method(stages=(Stage(objective),), label=label, own=ldam_schedule())
