"""Classifier heads: from features to one score per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened

if TYPE_CHECKING:
    from procrustean.nets.classifier import Classifier


class CosineHead(nn.Module):
    """Cosine between the feature and a vector per class, without bias (Cao et al. 2019)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        # Uniform directions of unit length, as in the original.
        self.weight = nn.Parameter(F.normalize(torch.empty(classes, features).uniform_(-1, 1), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        # Norms in float32 at least: under autocast the sum of squares would lose most of its digits.
        with torch.autocast(features.device.type, enabled=False):
            wide = widened(features)
            return F.linear(F.normalize(wide, dim=1), F.normalize(self.weight.to(wide.dtype), dim=1))


class SigmoidHead(nn.Linear):
    """A linear layer for losses of one sigmoid per class: its biases start at -log(C - 1) (Cui et al. 2019).

    Every class then starts with a probability of about 1 / C; with biases of 0 the C - 1 wrong classes of each sample,
    at 1/2 each, would make up most of the first gradients.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        nn.init.constant_(self.bias, -math.log(max(classes - 1, 1)))


class ScaledHead(nn.Module):
    """A linear head whose scores, the bias included, are multiplied by a learnable factor per class, 1 at first."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.scale = nn.Parameter(torch.ones(linear.out_features))

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.scale * self.linear(features)
        return scores


def with_scales(net: Classifier) -> None:
    """Give the linear head of a network its factors; what it has learnt stays."""
    assert isinstance(net.head, nn.Linear)
    net.head = ScaledHead(net.head)
