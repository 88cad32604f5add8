"""Remix (Chou et al. 2020): mixup in which the label goes to the smaller class where sizes differ much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

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


class Remixing(ImageMixing):
    """Mixup with the whole label for the smaller class if it is kappa times smaller and has at least 1 - tau."""

    counts: Tensor

    def __init__(self, counts: Sequence[int], alpha: float, kappa: float, tau: float) -> None:
        super().__init__(alpha)
        if not kappa >= 1:
            raise ConfigError(f"kappa = {kappa!r} received; a class is the larger one from a ratio of 1 on")
        if not 0 <= tau <= 1:
            raise ConfigError(f"tau = {tau!r} received; a share of the image lies in [0, 1]")
        self.register_buffer("counts", torch.tensor(checked_counts(counts)), persistent=False)
        self.tau = tau
        # kappa as a fraction, so that ratios of counts are compared in integers, exactly; infinity is 1/0.
        ratio = None if math.isinf(kappa) else Fraction(kappa).limit_denominator(1000)
        self.ratio = (1, 0) if ratio is None else (ratio.numerator, ratio.denominator)

    def label_share(self, share: Tensor, own: Tensor, other: Tensor) -> Tensor:
        over, under = self.ratio
        mine, theirs = self.counts[own], self.counts[other]
        smaller = over * mine <= under * theirs
        larger = under * mine >= over * theirs
        labels = torch.where(smaller & (share < self.tau), 0.0, share)
        return torch.where(larger & (1 - share < self.tau), 1.0, labels)


def remix(
    problem: Problem,
    *,
    alpha: float = 1.0,
    kappa: float = 3.0,
    tau: float = 0.5,
    reduction: Reduction = "weighted_mean",
    drw: bool = False,
) -> Method:
    """Blend images of random pairs; where class sizes differ much, the smaller class gets the whole label.

    Formula: x~_i = l x_i + (1 - l) x_j, j = p(i), l ~ Beta(alpha, alpha) once per batch;
    m_i = 0 if N_yi >= kappa N_yj and l < tau; 1 if kappa N_yi <= N_yj and 1 - l < tau; else l;
    loss_i = m_i * CE(x~_i, y_i) + (1 - m_i) * CE(x~_i, y_j).

    Args:
        alpha: spread of the share; 1 is uniform.
        kappa: ratio of class sizes from which the label moves; inf is mixup.
        tau: the larger class gives its label up while its share of the image is below this; 0 is mixup.
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        drw: weight each of the two terms by the effective number of its class in the last 20 % of the epochs.
    """
    objective = Classify(
        mixer=Remixing(problem.counts, alpha, kappa, tau),
        weight=deferred(problem.counts, drw),
        reduction=reduction,
    )
    # All that is known of Remix on iNaturalist is the batch that the MFW paper tells.
    own = {"batch_size": 256} if problem.source == "inaturalist18" else label_mixing_recipe(problem.source)
    return Method(stages=(Stage(objective),), label="Remix" + "-DRW" * drw, own=own)
