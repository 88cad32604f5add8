"""Label-aware smoothing (Zhong et al. 2021): the loss of MiSLAS's second stage, as a method of one stage."""

from __future__ import annotations

from procrustean.balance.losses import LabelAwareSmoothing
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_schedule, nearest_published, published
from procrustean.methods.method import Method, Stage

#: (head, tail) by the ratio of the largest to the smallest class.
PUBLISHED = {
    "cifar10": {100: (0.3, 0.0), 50: (0.2, 0.0), 10: (0.1, 0.0)},
    "cifar100": {100: (0.4, 0.1), 50: (0.3, 0.0), 10: (0.2, 0.0)},
}


def label_aware_smoothing(
    problem: Problem, *, head: float | None = None, tail: float | None = None, drw: bool = False
) -> Method:
    """Cross-entropy with labels smoothed the more the larger their class.

    Formula: loss = (1 - e_y) * -log p_y + e_y * mean_c(-log p_c), p = softmax(z);
    e_c = tail + (head - tail) * sin(pi/2 * (N_c - N_min) / (N_max - N_min)).

    Args:
        head: smoothing of the largest class; default 0.3, 0.2, 0.1 for ratios about 100, 50, 10 (CIFAR-100: 0.4,
            0.3, 0.2).
        tail: smoothing of the smallest class; default 0 (CIFAR-100 at a ratio about 100: 0.1).
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    usual_head, usual_tail = nearest_published(PUBLISHED, problem.source, problem.counts)
    head = usual_head if head is None else head
    tail = usual_tail if tail is None else tail
    loss = LabelAwareSmoothing(problem.counts, head, tail, reduction="none")
    objective = Classify(loss=loss, weight=deferred(problem.counts, drw))
    return Method(
        stages=(Stage(objective),),
        label="Label-aware smoothing" + "-DRW" * drw,
        own=published(problem.source, {**ldam_schedule(), "decay": 0.1}),
        resolved={"head": head, "tail": tail},
    )
