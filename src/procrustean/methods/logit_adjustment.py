"""Logit adjustment (Menon et al. 2021): scores are shifted by the log of the class priors while training."""

from __future__ import annotations

from typing import Any

from procrustean.balance.losses import LogitAdjusted
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage

#: The published code trains for 120,000 steps, which it counts in epochs: warm-up, three drops, end.
SCHEDULES = {"cifar10": (20, (604, 926, 1128), 1241), "cifar100": (22, (691, 1059, 1290), 1419)}


def logit_adjustment(problem: Problem, *, tau: float = 1.0) -> Method:
    """Cross-entropy of scores shifted by the log of the class priors; the plain scores predict.

    Formula: loss = -log softmax(z + tau * log pi)_y, pi_c = N_c / N; test: argmax z.

    Args:
        tau: strength of the shift; 0 is ERM, 1 is balanced_softmax and consistent for balanced accuracy.
    """
    objective = Classify(loss=LogitAdjusted(problem.counts, tau, reduction="none"))
    return Method(stages=(Stage(objective),), label="Logit adjustment", own=_published(problem.source))


def _published(source: str) -> dict[str, Any] | None:
    if source not in SCHEDULES:
        return published(source, ldam_schedule())
    warmup, drops, epochs = SCHEDULES[source]
    return {
        "epochs": epochs,
        "schedule": "steps",
        "milestones": tuple(drop / epochs for drop in drops),
        "decay": 0.1,
        "warmup_epochs": warmup,
        "nesterov": True,
    }
