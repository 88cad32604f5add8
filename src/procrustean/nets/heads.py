"""Classifier heads: from features to one score per class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineHead(nn.Module):
    """Cosine between the feature and a vector per class, without bias (Cao et al. 2019)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        # Uniform directions of unit length, as in the original.
        self.weight = nn.Parameter(F.normalize(torch.empty(classes, features).uniform_(-1, 1), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        # Norms in float32: under autocast the sum of squares would lose most of its digits.
        with torch.autocast(features.device.type, enabled=False):
            return F.linear(F.normalize(features.float(), dim=1), F.normalize(self.weight.float(), dim=1))
