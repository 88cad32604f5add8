"""Focal loss (Lin et al. 2017): samples that are classified well already count less."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import ConfigError
from ..objectives import Classify, CrossEntropy
from ..recipes import ldam_schedule
from ..types import Problem
from ..weights import deferred
from .base import Method, Stage


class FocalLoss(CrossEntropy):
    """(1 - p)^gamma * cross-entropy per sample, p = softmax probability of the true class."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        if not 0 <= gamma < math.inf:
            raise ConfigError(f"gamma = {gamma!r} received; the focus has to be 0 (cross-entropy) or more")
        self.gamma = gamma

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        losses = super().forward(logits, y)
        # 1 - exp(-ce) by expm1: for a well-classified sample the difference would round to 0, with a gradient
        # of NaN for gamma < 1.
        return (-torch.expm1(-losses)).clamp_min(torch.finfo(losses.dtype).tiny) ** self.gamma * losses


def focal(problem: Problem, *, gamma: float = 1.0, drw: bool = False) -> Method:
    """Softmax focal loss.

    Formula: loss = (1 - p_y)^gamma * -log p_y.

    Args:
        gamma: focus on badly classified samples; 0 is cross-entropy.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    objective = Classify(loss=FocalLoss(gamma), weight=deferred(problem.counts, drw))
    return Method(stages=(Stage(objective),), label="Focal" + "-DRW" * drw, own=ldam_schedule())
