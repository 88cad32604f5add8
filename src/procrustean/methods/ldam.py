"""LDAM (Cao et al. 2019): margins that grow as classes get smaller, on a cosine classifier."""

from __future__ import annotations

from procrustean.balance.losses import LDAM
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_recipe
from procrustean.methods.method import Method, Stage
from procrustean.nets.heads import CosineHead


def ldam(problem: Problem, *, max_margin: float | None = None, scale: float = 30.0, drw: bool = False) -> Method:
    """Label-distribution-aware margin loss; the paper's row is LDAM-DRW (drw=True).

    Formula: z_c = cos(f, w_c); loss = -log softmax(scale * (z - m_y e_y))_y;
    m_c = max_margin * (N_min / N_c)^(1/4).

    Args:
        max_margin: margin of the smallest class; default 0.5 (0.3 on iNaturalist).
        scale: factor before the softmax.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    if max_margin is None:
        max_margin = 0.3 if problem.source == "inaturalist18" else 0.5
    loss = LDAM(problem.counts, max_margin, scale, reduction="none")
    objective = Classify(loss=loss, weight=deferred(problem.counts, drw))
    return Method(
        stages=(Stage(objective),),
        label="LDAM" + "-DRW" * drw,
        head=CosineHead,
        own=ldam_recipe(problem.source),
        resolved={"max_margin": max_margin},
    )
