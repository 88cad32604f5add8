"""OLTR (Liu et al. 2019): a network trained as usual gets attention, a memory of class centroids and cosines."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened
from procrustean.balance.losses import CrossEntropy
from procrustean.balance.objectives import Classify, Objective
from procrustean.balance.samplers import class_aware
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.data.recipes import PAPER, decoupling_recipes, is_large, ldam_schedule, published
from procrustean.methods.method import CleanBatches, Method, Stage
from procrustean.nets.classifier import Backbone, Classifier, check_chain

#: Epochs of the two stages: on ImageNet-LT as published, and elsewhere. Nothing is published for CIFAR, where 30 epochs
#: are a tenth of the steps and leave the features half learnt (47 % on long-tailed CIFAR-10 at ratio 100): there the
#: first stage is a whole training, as in the re-runs of the other methods that begin with one.
EPOCHS_LARGE, EPOCHS_SMALL = (30, 60), (200, 60)
#: Weight of the loss of the centroids, and within it of the part that keeps other classes away up to a margin.
CENTROIDS, REPEL, MARGIN = 0.01, 0.01, 10.0
#: Side of the grid of positions that have weights, as published.
GRID = 7
#: Numerator of the factor near the centroids, and factor of the cosines, as published.
REACH, SCALE = 10.0, 16.0


class ModulatedAttention(nn.Module):
    """x + m * n: a non-local block n, weighted by a softmax m over the positions that is read off the whole map.

    The layer behind m has a weight for every position, so it has a fixed grid, 7 x 7 as published. A map of another
    size is averaged to the grid, and the scores of the grid back to the map; at 7 x 7 neither does anything.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = channels // 2
        self.theta = nn.Conv2d(channels, inner, 1)
        # A bias would add the same number to all scores of a position: the softmax takes it out again.
        self.phi = nn.Conv2d(channels, inner, 1, bias=False)
        self.g = nn.Conv2d(channels, inner, 1)
        self.out = nn.Conv2d(inner, channels, 1, bias=False)
        self.spatial = nn.Linear(GRID * GRID * channels, GRID * GRID)
        for layer in (self.theta, self.phi, self.g, self.out):
            nn.init.normal_(layer.weight, std=math.sqrt(2 / layer.out_channels))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        size, side = (x.shape[2], x.shape[3]), (GRID, GRID)
        theta, phi, g = (layer(x).flatten(2) for layer in (self.theta, self.phi, self.g))  # [B, inner, HW]
        similarity = (theta.transpose(1, 2) @ phi).softmax(2)  # [B, HW, HW]
        context = self.out((g @ similarity.to(g.dtype).transpose(1, 2)).unflatten(2, size))
        on_grid = x.flatten(2) @ averaging(size, side, x)
        scores = self.spatial(on_grid.flatten(1))
        mask = (scores @ averaging(side, size, scores)).softmax(1)
        attended: Tensor = x + mask.to(x.dtype).unflatten(1, size).unsqueeze(1) * context
        return attended


def averaging(size: tuple[int, int], wanted: tuple[int, int], like: Tensor) -> Tensor:
    """The matrix that averages a flat map of one size to another, [positions, wanted positions]."""
    positions = size[0] * size[1]
    each = torch.eye(positions, device=like.device).view(positions, 1, *size)
    # As a product with this constant the averaging has a deterministic gradient, which the pooling layer has not.
    return F.adaptive_avg_pool2d(each, wanted).flatten(1).to(like.dtype)


class AttendedBackbone(Backbone):
    """A trained backbone with attention on its last map; the feature is relu(W mean + b), as wide as before.

    It takes over the children of the backbone it is made from, under their names. That backbone has to be a chain of
    children and a mean over the pixels.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        check_chain(backbone, "a network with attention on its last feature map")
        self.groups, self.second_group, self.shrinks = backbone.groups, backbone.second_group, backbone.shrinks
        self.chain, self.features = backbone.chain, backbone.features
        for name in self.chain:
            setattr(self, name, getattr(backbone, name))
        self.attention = ModulatedAttention(self.features)
        self.direct = nn.Linear(self.features, self.features)

    def forward(self, x: Tensor) -> Tensor:
        feature: Tensor = self.direct(self.attention(self.map(x)).mean((2, 3))).relu()
        return feature


class MemoryHead(nn.Module):
    """The feature is enriched by a mixture of the centroids, lengthened near them, and classified by its cosines.

    v_mem = softmax(hallucinator(v)) M; meta = 10 / min_c |v - m_c| * (v + tanh(selector(v)) * v_mem);
    scores = 16 * |meta| / (1 + |meta|) * cos(meta, w_c). The scores move the centroids M no further: their loss does.

    Args:
        hallucinator: the linear head of a trained network.
    """

    def __init__(self, hallucinator: nn.Linear) -> None:
        super().__init__()
        classes, features = hallucinator.weight.shape
        self.hallucinator = hallucinator
        self.selector = nn.Linear(features, features)
        self.centroids = nn.Parameter(torch.zeros(classes, features))
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(torch.empty(classes, features).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        shares, chosen = self.hallucinator(features), self.selector(features)
        # Distances and norms in float32: under autocast the sums of squares would lose most of their digits.
        with torch.autocast(features.device.type, enabled=False):
            v = widened(features)
            memory = self.centroids.detach().to(v.dtype)
            recalled = widened(shares).softmax(1) @ memory
            # The floor keeps the factor finite for an image that is the centroid of its class.
            nearest = squared_distances(v, memory).amin(1, keepdim=True).clamp_min(1e-6).sqrt()
            meta = REACH / nearest * (v + widened(chosen).tanh() * recalled)
            squashed = meta / (1 + meta.norm(dim=1, keepdim=True))
            return SCALE * F.linear(squashed, F.normalize(self.weight.to(v.dtype), dim=1))


def squared_distances(rows: Tensor, others: Tensor) -> Tensor:
    """|a - b|^2 of every row with every other, [n, m], without a tensor of all differences."""
    squares = rows.square().sum(1, keepdim=True) + others.square().sum(1)
    return (squares - 2 * rows @ others.T).clamp_min(0)


class Remember(Objective):
    """Cross-entropy, and features drawn to the centroid of their class and away from the others."""

    def __init__(self, plain_gradient: bool) -> None:
        super().__init__()
        self.plain_gradient = plain_gradient
        self.loss = CrossEntropy()

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        net = cast(Classifier, net)
        head = cast(MemoryHead, net.head)
        features = net.features_of(batch.x)
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
        sums += own @ net.features_of(x).to(sums)
        counts += own.sum(1, keepdim=True)
    net.train(before)
    centroids.copy_(sums / counts)
