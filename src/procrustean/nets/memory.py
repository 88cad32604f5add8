"""A classifier head with a memory of class centroids (Liu et al. 2019)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened

#: Numerator of the factor near the centroids, and factor of the cosines, as published.
REACH, SCALE = 10.0, 16.0


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
