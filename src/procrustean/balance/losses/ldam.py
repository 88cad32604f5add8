"""LDAM (Cao et al. 2019): margins that grow as classes get smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.count_facts import checked_counts
from procrustean.balance.losses.base import CrossEntropy, Reduction
from procrustean.base.errors import ConfigError


class LDAM(CrossEntropy):
    """Cross-entropy of scale * (z - m_y e_y), m_c = max_margin * (n_min / n_c)^(1/4).

    The scores have to be cosines between features and class vectors (`procrustean.nets.heads.CosineHead`); on those
    of a linear layer the loss diverges.

    Args:
        counts: training images per class, index = label.
        max_margin: margin of the smallest class.
        scale: factor before the softmax.
        reduction: "mean" or "none".

    >>> LDAM([5000, 50]).margins
    tensor([0.1581, 0.5000])
    """

    margins: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        max_margin: float = 0.5,
        scale: float = 30.0,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        if not (0 <= max_margin < math.inf and 0 < scale < math.inf):
            raise ConfigError(f"max_margin = {max_margin!r}, scale = {scale!r} received; need >= 0 and > 0")
        checked = checked_counts(counts)
        margins = [max_margin * (min(checked) / n) ** 0.25 for n in checked]
        self.hold("margins", lambda: torch.tensor(margins, dtype=torch.float32))
        self.scale = scale

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        own = F.one_hot(labels, logits.shape[1])
        return super().per_sample(self.scale * (logits - own * self.margins), labels)
