"""De-confound and De-confound-TDE (Tang et al. 2020): cosine scores without the direction that all features share."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import decoupling_recipes, published
from procrustean.methods.method import Method, Stage
from procrustean.nets.bilateral import BilateralBackbone
from procrustean.nets.classifier import Classifier

ALPHA = {"cifar10": 1.0, "cifar100": 1.5, "imagenet-lt": 3.0}


class CausalHead(nn.Module):
    """Cosines of parts of the feature, added up; the direction common to all can be taken out (Tang et al. 2020).

    Args:
        features, classes: widths of input and output.
        parts: into how many parts of equal width the feature is cut.
        scale: factor of the scores.
        gamma: added to the norm of a class vector, so that short vectors keep lower scores.
        momentum: of the moving sum of batch means, kept while training; only its direction is used.
        effect: how much of the direction is taken out of the features at evaluation; 0 leaves them.
    """

    average: Tensor

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        parts: int = 2,
        scale: float = 16.0,
        gamma: float = 1 / 32,
        momentum: float = 0.9,
        effect: float = 0.0,
    ) -> None:
        super().__init__()
        if parts < 1 or features % parts:
            raise ConfigError(f"{parts} parts received for a feature of width {features}; they have to divide it")
        self.parts, self.scale, self.gamma, self.momentum, self.effect = parts, scale, gamma, momentum, effect
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(torch.empty(classes, features).uniform_(-bound, bound))
        self.register_buffer("average", torch.zeros(features))

    def forward(self, features: Tensor) -> Tensor:
        # Norms in float32: under autocast the sum of squares would lose most of its digits.
        with torch.autocast(features.device.type, enabled=False):
            wide = widened(features)
            if self.training:
                with torch.no_grad():  # in place: a captured step goes on writing to the same memory
                    self.average.mul_(self.momentum).add_(wide.mean(0))
            directions = F.normalize(self._cut(wide), dim=2)
            if self.effect and not self.training:
                common = F.normalize(self._cut(self.average), dim=1)
                cosines = (directions * common).sum(2, keepdim=True)
                directions = directions - self.effect * cosines * common
            vectors = self._cut(self.weight.to(wide.dtype))
            vectors = vectors / (vectors.norm(dim=2, keepdim=True) + self.gamma)
            return self.scale / self.parts * F.linear(directions.flatten(1), vectors.flatten(1))

    def _cut(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:-1], self.parts, -1)


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
