"""Balanced softmax (Ren et al. 2020): scores are shifted by the log of the class sizes while training."""

from __future__ import annotations

from procrustean.balance.losses import BalancedSoftmax
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage


def balanced_softmax(problem: Problem) -> Method:
    """Cross-entropy under the training set's class distribution; the plain scores predict.

    Formula: loss = -log softmax(z + log N)_y, N the class counts; test: argmax z. It is logit_adjustment with tau = 1.
    """
    objective = Classify(loss=BalancedSoftmax(problem.counts, reduction="none"))
    return Method(stages=(Stage(objective),), label="Balanced softmax", own=published(problem.source, ldam_schedule()))
