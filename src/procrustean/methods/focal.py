"""Focal loss (Lin et al. 2017): samples that are classified well already count less."""

from __future__ import annotations

from procrustean.balance.losses import Focal, Form
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_recipe
from procrustean.methods.method import Method, Stage
from procrustean.nets.heads import SigmoidHead


def focal(problem: Problem, *, gamma: float = 1.0, form: Form = "softmax", drw: bool = False) -> Method:
    """Focal loss, of a softmax or of one sigmoid per class.

    Formula: softmax: loss = (1 - p_y)^gamma * -log p_y, p = softmax(z);
    sigmoid: loss = sum_c (1 - q_c)^gamma * -log q_c, q_c = sigmoid(z_c) for c = y, sigmoid(-z_c) for the others,
    with biases that start at -log(C - 1).

    Args:
        gamma: focus on what is classified badly; 0 is cross-entropy.
        form: softmax as Cao et al. (2019) use it, or sigmoid as Cui et al. (2019) do.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    objective = Classify(loss=Focal(gamma, form=form, reduction="none"), weight=deferred(problem.counts, drw))
    return Method(
        # Weight decay would pull the biases of sigmoids towards a probability of one half (Cui et al. 2019).
        stages=(Stage(objective, no_decay=("head.bias",) if form == "sigmoid" else ()),),
        label="Focal" + "-sigmoid" * (form == "sigmoid") + "-DRW" * drw,
        head=SigmoidHead if form == "sigmoid" else None,
        own=ldam_recipe(problem.source),
    )
