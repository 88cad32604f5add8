"""Class-dependent temperatures (Ye et al. 2020): scores of small classes are divided while training."""

from __future__ import annotations

from procrustean.balance.losses import CDT
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_recipe
from procrustean.methods.method import Method, Stage


def cdt(problem: Problem, *, gamma: float | None = None, drw: bool = False) -> Method:
    """Cross-entropy of scores divided by a temperature per class; the plain scores predict.

    Formula: loss = -log softmax(z / a)_y, a_c = (N_max / N_c)^gamma; test: argmax z.

    Args:
        gamma: exponent of the temperatures, 0 is ERM; default 0.2 (0.1 on iNaturalist). The authors choose it on
            held-out images, from 0 to 0.4 on CIFAR-10, 0.2 on CIFAR-100, 0.1 on iNaturalist.
        drw: weight the classes by effective numbers in the last 20 % of the epochs; the temperatures stay on.
    """
    if gamma is None:
        gamma = 0.1 if problem.source == "inaturalist18" else 0.2
    loss = CDT(problem.counts, gamma, reduction="none")
    objective = Classify(loss=loss, weight=deferred(problem.counts, drw))
    return Method(
        stages=(Stage(objective),),
        label="CDT" + "-DRW" * drw,
        own=ldam_recipe(problem.source),
        resolved={"gamma": gamma},
    )
