"""A network whose last feature map is modulated by attention and ends in a direct feature (Liu et al. 2019)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.nets.classifier import Backbone, check_chain

#: Side of the grid of positions that have weights, as published.
GRID = 7


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
