"""Vector-scaling loss (Kini et al. 2021): class-dependent temperatures and logit adjustment in one."""

from __future__ import annotations

from procrustean.balance.losses import VS
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage


def vs(problem: Problem, *, gamma: float = 0.2, tau: float = 1.2) -> Method:
    """Cross-entropy of scores divided by a temperature and shifted by the log prior; the plain scores predict.

    Formula: loss = -log softmax(z / a + tau * log pi)_y, a_c = (N_max / N_c)^gamma, pi_c = N_c / N; test: argmax z.

    Args:
        gamma: exponent of the temperatures; 0 leaves logit_adjustment.
        tau: strength of the shift; 0 leaves cdt.
    """
    objective = Classify(loss=VS(problem.counts, gamma, tau, reduction="none"))
    return Method(stages=(Stage(objective),), label="VS", own=published(problem.source, ldam_schedule()))
