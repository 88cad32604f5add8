"""De-confound and De-confound-TDE (Tang et al. 2020): cosine scores without the direction that all features share."""

from __future__ import annotations

import math
from functools import partial

from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.base.errors import ConfigError
from procrustean.data.published_recipes import decoupling_recipes, published
from procrustean.methods.base import Method, Stage
from procrustean.nets.bilateral import BilateralBackbone
from procrustean.nets.classifier import Classifier
from procrustean.nets.heads import CausalHead

ALPHA = {"cifar10": 1.0, "cifar100": 1.5, "imagenet-lt": 3.0}


def deconfound(
    problem: Problem,
    *,
    tde: bool = False,
    alpha: float | None = None,
    heads: int = 2,
    scale: float = 16.0,
    gamma: float = 1 / 32,
    momentum: float = 0.9,
    two_branches: bool = False,
) -> Method:
    """A multi-head cosine classifier; with TDE, features lose their common direction at evaluation.

    Formula: z_c = scale/K * sum_k <x_k/|x_k|, w_ck/(|w_ck| + gamma)> for the K parts x_k of the feature; CE;
    TDE: x_k/|x_k| - alpha * cos(x_k, d_k) * d_k/|d_k| instead of x_k/|x_k| at evaluation,
    d <- momentum * d + mean of the batch's features while training.

    Args:
        tde: take the total direct effect at evaluation (the row De-confound-TDE).
        alpha: how much of the common direction TDE takes out, 0 nothing; default 1 (CIFAR-100: 1.5, ImageNet-LT: 3).
        heads: K, which has to divide the width of the feature.
        scale: factor of the scores.
        gamma: added to the lengths of the class vectors.
        momentum: of the sum of batch means.
        two_branches: on a network whose last block exists twice, features side by side, as published for CIFAR.
    """
    if alpha is None:
        alpha = ALPHA.get(problem.source, 1.0)
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        if not 0 <= value < math.inf:
            raise ConfigError(f"{name} = {value!r} received; it has to be 0 or more")
    if not 0 < scale < math.inf:
        raise ConfigError(f"scale = {scale!r} received; the factor of the scores has to be above 0 (16 is usual)")
    if not 0 <= momentum <= 1:
        raise ConfigError(f"momentum = {momentum!r} received; it lies between 0 and 1 (0.9 is usual)")
    head = partial(CausalHead, parts=heads, scale=scale, gamma=gamma, momentum=momentum, effect=alpha if tde else 0.0)

    def fork(net: Classifier) -> None:
        net.backbone = BilateralBackbone(net.backbone, alike=net.pretrained is not None)
        net.head = head(net.backbone.features, problem.classes)

    own = {"epochs": 200, "schedule": "steps", "milestones": (0.6, 0.8), "decay": 0.01}
    if problem.source in ("cifar10", "cifar100"):
        own |= {"batch_size": 256, "lr": 0.2, "weight_decay": 5e-4}
    own_elsewhere = {"imagenet-lt": decoupling_recipes()["imagenet-lt"]}
    stage = Stage(Classify(), reshape=fork if two_branches else None)
    return Method(
        stages=(stage,),
        label="De-confound" + "-TDE" * tde,
        head=head,
        own=published(problem.source, own, own_elsewhere),
        resolved={"alpha": alpha},
    )
