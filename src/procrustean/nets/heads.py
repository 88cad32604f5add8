"""Classifier heads: from features to one score per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import widened
from procrustean.base.errors import ConfigError

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
