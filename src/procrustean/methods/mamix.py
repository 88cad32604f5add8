"""MAMix (Cheng, Lin 2023): mixup whose labels change hands at a margin that depends on the class sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from procrustean.balance.count_facts import checked_counts
from procrustean.balance.objectives import Classify, Reduction
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import label_mixing_recipe
from procrustean.methods.method import Method, Stage
from procrustean.methods.mixup import ImageMixing


class MarginMixing(ImageMixing):
    """Mixup with labels of one half each where the image is as far from both classes as their margins ask for."""

    logs: Tensor

    def __init__(self, counts: Sequence[int], alpha: float, power: float) -> None:
        super().__init__(alpha)
        if not 0 <= power < math.inf:
            raise ConfigError(f"power = {power!r} received; margins of n^-power need 0 (mixup) or more")
        logs = [math.log(n) for n in checked_counts(counts)]
        self.register_buffer("logs", torch.tensor(logs, dtype=torch.float32), persistent=False)
        self.power = power

    def label_share(self, share: Tensor, own: Tensor, other: Tensor) -> Tensor:
        # The knee k_own / (k_own + k_other), k = n^-power; kept off 0 and 1, where nothing could be divided by it.
        knee = torch.sigmoid(self.power * (self.logs[other] - self.logs[own])).clamp(1e-6, 1 - 1e-6)
        before, behind = share / knee, (share - knee) / (1 - knee)
        return 0.5 * torch.where(share <= knee, before, 1 + behind)


def mamix(
    problem: Problem,
    *,
    alpha: float = 1.0,
    power: float = 0.25,
    reduction: Reduction = "weighted_mean",
    drw: bool = False,
) -> Method:
    """Blend images of random pairs; the label of the smaller class holds on for longer.

    Formula: x~_i = (1 - l) x_i + l x_j, j = p(i), l ~ Beta(alpha, alpha) once per batch;
    q = k_i / (k_i + k_j), k = N^-power; m_i falls linearly from 1 at l = 0 to 1/2 at l = q to 0 at l = 1;
    loss_i = m_i * CE(x~_i, y_i) + (1 - m_i) * CE(x~_i, y_j).

    Args:
        alpha: spread of the share; 1 is uniform.
        power: how fast margins grow as classes get smaller; 1/4 as in LDAM, 0 is mixup.
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        drw: weight each of the two terms by the effective number of its class in the last 20 % of the epochs.
    """
    objective = Classify(
        mixer=MarginMixing(problem.counts, alpha, power),
        weight=deferred(problem.counts, drw),
        reduction=reduction,
    )
    own = label_mixing_recipe(problem.source)
    return Method(stages=(Stage(objective),), label="MAMix" + "-DRW" * drw, own=own)
