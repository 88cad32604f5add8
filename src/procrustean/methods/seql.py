"""Softmax equalization loss (Tan et al. 2020): rare classes are often spared the gradients of others."""

from __future__ import annotations

from procrustean.balance.losses import SEQL
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.published_recipes import ldam_schedule, published
from procrustean.methods.base import Method, Stage

#: Where the publication's threshold is not half the share of an average class.
LAM = {"imagenet-lt": 4.3e-4}


def seql(problem: Problem, *, gamma: float = 0.9, lam: float | None = None, drw: bool = False) -> Method:
    """Cross-entropy that leaves rare classes out of the denominator of other classes, at random.

    Formula: loss = -log(exp z_y / sum_c w_c exp z_c), w_c = 1 - b_c * [N_c / N < lam] * [c != y],
    b_c ~ Bernoulli(gamma) per sample and class; test: argmax z.

    Args:
        gamma: probability that a rare class is left out; 0 is ERM.
        lam: a class is rare if it has less than this share of all images; default 0.5 / C (0.05 on CIFAR-10, 0.005
            on CIFAR-100), 4.3e-4 on ImageNet-LT. 0 is ERM.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    if lam is None:
        lam = LAM.get(problem.source, 0.5 / problem.classes)
    loss = SEQL(problem.counts, gamma, lam, reduction="none")
    objective = Classify(loss=loss, weight=deferred(problem.counts, drw))
    return Method(
        stages=(Stage(objective),),
        label="SEQL" + "-DRW" * drw,
        own=published(problem.source, ldam_schedule()),
        resolved={"lam": lam},
    )
