"""BBN (Zhou et al. 2020): a branch for the classes as they are, one for the reverse, and a slow move to the second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor, nn

from procrustean.balance.losses import CrossEntropy
from procrustean.balance.objectives import Objective
from procrustean.balance.samplers import reversed_frequency
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.data.recipes import published
from procrustean.methods.method import Method, Stage
from procrustean.nets.bilateral import BilateralBackbone
from procrustean.nets.classifier import Classifier

#: On iNaturalist the authors stretch the move over more epochs than these trainings have.
STRETCHED = {90: 100, 180: 200}


class Bilateral(Objective):
    """One stream of images through each branch; features and losses are weighted by the epoch.

    Args:
        stretched: lengths of a training over whose end the move goes on -> those of the whole move.
    """

    def __init__(self, stretched: Mapping[int, int] = MappingProxyType({})) -> None:
        super().__init__()
        self.loss = CrossEntropy()
        self.stretched = stretched

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        assert batch.extra is not None
        net = cast(Classifier, net)
        backbone = cast(BilateralBackbone, net.backbone)
        share = self.share(clock)
        # Apart, not as one batch: each stream is normalised by its own statistics.
        own = backbone.branch(batch.x, "conventional")
        other = backbone.branch(batch.extra.x, "rebalancing")
        scores = net.head(2 * torch.cat((share * own, (1 - share) * other), dim=1))
        loss: Tensor = share * self.loss(scores, batch.y) + (1 - share) * self.loss(scores, batch.extra.y)
        return loss

    def share(self, clock: Clock) -> Tensor:
        """A of the formula: 1 at first, then ever faster towards 0; constant within an epoch."""
        return 1 - (clock.epoch / self.stretched.get(clock.epochs, clock.epochs)) ** 2


def bbn(problem: Problem) -> Method:
    """Bilateral-branch network: the last block exists twice, and the head sees both.

    Formula: a drawn from all images alike, b with class probability ~ 1 / N_c; A = 1 - ((T - 1) / E)^2 in epoch T of E
    (iNaturalist, as published: E = 100 for 90 epochs, 200 for 180);
    z = W (2 A f_c(a), 2 (1 - A) f_r(b)) + b; loss = A * CE(z, y_a) + (1 - A) * CE(z, y_b);
    evaluation: z = W (f_c(x), f_r(x)) + b.
    """

    def fork(net: Classifier) -> None:
        net.backbone = BilateralBackbone(net.backbone, alike=net.pretrained is not None)
        net.head = nn.Linear(net.backbone.features, problem.classes)

    cifar = {"epochs": 200, "schedule": "steps", "milestones": (0.6, 0.8), "decay": 0.01, "nesterov": True}
    # The MFW paper takes its schedule on iNaturalist from here; the authors' code crops parts of random size.
    inaturalist = {"nesterov": True, "augment": "random_resized_crop"}
    own = published(problem.source, cifar, {"inaturalist18": inaturalist})
    objective = Bilateral(STRETCHED if problem.source == "inaturalist18" else {})
    return Method(stages=(Stage(objective, extra=reversed_frequency, reshape=fork),), label="BBN", own=own)
