"""Empirical risk minimisation: plain cross-entropy on the data as they come."""

from __future__ import annotations

from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_recipe
from procrustean.methods.method import Method, Stage


def erm(problem: Problem, *, drw: bool = False) -> Method:
    """Cross-entropy, uniform sampling: the baseline every other method is compared with.

    Formula: loss = -log softmax(z)_y.

    Args:
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    return Method(
        stages=(Stage(Classify(weight=deferred(problem.counts, drw))),),
        label="ERM" + "-DRW" * drw,
        own=ldam_recipe(problem.source),
    )
