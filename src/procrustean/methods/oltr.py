"""OLTR (Liu et al. 2019): a network trained as usual gets attention, a memory of class centroids and cosines."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened
from procrustean.balance.losses import CrossEntropy
from procrustean.balance.objectives import Classify, Objective
from procrustean.balance.samplers import class_aware
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.data.published_recipes import decoupling_recipes, is_large, ldam_schedule, published
from procrustean.data.recipes import PAPER
from procrustean.methods.base import CleanBatches, Method, Stage
from procrustean.nets.attended import AttendedBackbone
from procrustean.nets.classifier import Classifier
from procrustean.nets.memory import MemoryHead, squared_distances

#: Epochs of the two stages: on ImageNet-LT as published, and elsewhere. Nothing is published for CIFAR, where 30 epochs
#: are a tenth of the steps and leave the features half learnt (47 % on long-tailed CIFAR-10 at ratio 100): there the
#: first stage is a whole training, as in the re-runs of the other methods that begin with one.
EPOCHS_LARGE, EPOCHS_SMALL = (30, 60), (200, 60)
#: Weight of the loss of the centroids, and within it of the part that keeps other classes away up to a margin.
CENTROIDS, REPEL, MARGIN = 0.01, 0.01, 10.0


class Remember(Objective):
    """Cross-entropy, and features drawn to the centroid of their class and away from the others."""

    def __init__(self, plain_gradient: bool) -> None:
        super().__init__()
        self.plain_gradient = plain_gradient
        self.loss = CrossEntropy()

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        net = cast(Classifier, net)
        head = cast(MemoryHead, net.head)
        features = net.backbone(batch.x)
        loss: Tensor = self.loss(head(features), batch.y)
        with torch.autocast(batch.x.device.type, enabled=False):
            return loss + self.of_centroids(widened(features), batch.y, head.centroids)

    def of_centroids(self, v: Tensor, y: Tensor, centroids: Tensor) -> Tensor:
        """0.01 * (attract + 0.01 * repel), with the gradient of the formula or that of the authors' code."""
        own = F.one_hot(y, len(centroids)).bool()
        others = squared_distances(v, centroids).masked_fill(own, 0.0)
        repel = (MARGIN - others.mean()).relu()
        mine = centroids[y]
        attract = 0.5 * (v - (mine if self.plain_gradient else mine.detach())).square().sum(1).mean()
        loss = CENTROIDS * (attract + REPEL * repel)
        if self.plain_gradient:
            return loss
        pull = 0.5 * (mine - v.detach()).square().sum(1)
        pull = (pull / (1 + own[:, y].sum(0))).mean()
        return loss + (pull - pull.detach())  # a gradient without a value


def oltr(problem: Problem, *, plain_gradient: bool = False) -> Method:
    """Usual training, then attention and a memory of class centroids that small classes borrow from.

    Formula: stage 1 CE; stage 2, on runs of 4 images per class in turn: x the last map, x' = x + softmax(A x) * NL(x),
    v = relu(W mean(x') + b), v_mem = softmax(h(v)) M with h the head of stage 1,
    v_meta = 10 / min_c |v - m_c| * (v + tanh(s(v)) * v_mem), z_c = 16 * |v_meta| / (1 + |v_meta|) * cos(v_meta, w_c),
    loss = CE + 0.01 * (attract + 0.01 * repel), attract = mean |v - m_y|^2 / 2,
    repel = max(0, 10 - sum_{i, c != y_i} |v_i - m_c|^2 / (B C)); M begins as the class means of v, and only the last
    two terms move it, at a tenth of the rate of the head, as the backbone.

    Args:
        plain_gradient: move M by the gradient of the formula; by default as the authors' code does, where that of
            attract is the sum of (m_c - v) / B over the n images of the class, divided by 1 + n, without the 0.01.
    """
    large = is_large(problem.source)
    first, second = EPOCHS_LARGE if large else EPOCHS_SMALL
    total = first + second
    falls = {"milestones": (1 / 3, 2 / 3), "decay": 0.1, "weight_decay": 5e-4, "warmup_epochs": 0}
    features = Stage(Classify(), name="features", share=first / total)
    memory = Stage(
        Remember(plain_gradient),
        name="memory",
        share=second / total,
        sampler=class_aware,
        rates={"backbone": 0.1, "head.centroids": 0.1},
        reshape=_with_memory,
        begin=_remember_means,
        recipe={} if large else falls,
    )
    imagenet = {
        **decoupling_recipes()["imagenet-lt"],  # Kang et al. took the augmentation from here
        **falls, "schedule": "steps", "epochs": total, "batch_size": 128, "lr": 0.1, "nesterov": False,
    }  # fmt: skip
    own = published(problem.source, {**ldam_schedule(), "epochs": total}, {"imagenet-lt": imagenet})
    longer = total / first if problem.source in PAPER and not large else 1.0
    return Method((features, memory), label="OLTR", longer=longer, own=own)


def _with_memory(net: Classifier) -> None:
    assert isinstance(net.head, nn.Linear)
    net.backbone = AttendedBackbone(net.backbone)
    net.head = MemoryHead(net.head)


@torch.no_grad()
def _remember_means(net: Classifier, batches: CleanBatches) -> None:
    centroids = cast(MemoryHead, net.head).centroids
    sums = torch.zeros_like(centroids, dtype=torch.float64)
    counts = sums.new_zeros(len(sums), 1)
    before = net.training
    net.eval()
    for x, y in batches():
        own = F.one_hot(y, len(sums)).T.to(sums)
        sums += own @ net.backbone(x).to(sums)
        counts += own.sum(1, keepdim=True)
    net.train(before)
    centroids.copy_(sums / counts)
