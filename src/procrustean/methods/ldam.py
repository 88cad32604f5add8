"""LDAM (Cao et al. 2019): margins that grow as classes get smaller, on a cosine classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..counts import checked_counts
from ..errors import ConfigError
from ..nets.heads import CosineHead
from ..objectives import Classify, CrossEntropy
from ..recipes import ldam_schedule
from ..types import Problem
from ..weights import deferred
from .base import Method, Stage


class LDAMLoss(CrossEntropy):
    """Cross-entropy of scaled cosines, the true class's lowered by a margin ~ n^(-1/4) up to max_margin."""

    margins: Tensor

    def __init__(self, counts: Sequence[int], max_margin: float, scale: float) -> None:
        super().__init__()
        if not (0 <= max_margin < math.inf and 0 < scale < math.inf):
            raise ConfigError(f"max_margin = {max_margin!r}, scale = {scale!r} received; need >= 0 and > 0")
        margins = torch.tensor([n**-0.25 for n in checked_counts(counts)], dtype=torch.float64)
        self.register_buffer("margins", (margins * (max_margin / margins.max())).float())
        self.scale = scale

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        own = F.one_hot(y, logits.shape[1])
        return super().forward(self.scale * (logits.float() - own * self.margins), y)


def ldam(problem: Problem, *, max_margin: float = 0.5, scale: float = 30.0, drw: bool = False) -> Method:
    """Label-distribution-aware margin loss; the paper's row is LDAM-DRW (drw=True).

    Formula: z_c = cos(f, w_c); loss = -log softmax(scale * (z - m_y e_y))_y;
    m_c = max_margin * (N_min / N_c)^(1/4).

    Args:
        max_margin: margin of the smallest class.
        scale: factor before the softmax.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    objective = Classify(loss=LDAMLoss(problem.counts, max_margin, scale), weight=deferred(problem.counts, drw))
    return Method(stages=(Stage(objective),), label="LDAM" + "-DRW" * drw, head=CosineHead, own=ldam_schedule())
