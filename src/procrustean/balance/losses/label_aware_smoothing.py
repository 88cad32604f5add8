"""Label-aware smoothing (Zhong et al. 2021, MiSLAS): labels of large classes are smoothed more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.count_facts import checked_counts
from procrustean.balance.losses.base import Loss, Reduction
from procrustean.base.errors import ConfigError


class LabelAwareSmoothing(Loss):
    """(1 - e_y) * -log p_y + e_y * mean_c(-log p_c), p = softmax(z).

    e_c = tail + (head - tail) * sin(pi/2 * (n_c - n_min) / (n_max - n_min)): `head` for the largest class, `tail` for
    the smallest; `head` for all if they are equal.

    Args:
        counts: training images per class, index = label.
        head: smoothing of the largest class.
        tail: smoothing of the smallest class, at most `head`; 0 for both is cross-entropy.
        reduction: "mean" or "none".

    >>> LabelAwareSmoothing([500, 255, 10], head=0.3, tail=0.1).smoothing
    tensor([0.3000, 0.2414, 0.1000])
    """

    smoothing: Tensor

    def __init__(
        self, counts: Sequence[int], head: float = 0.3, tail: float = 0.0, *, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        if not 0 <= tail <= head < 1:
            raise ConfigError(
                f"head = {head!r}, tail = {tail!r} received; need 0 <= tail <= head < 1, "
                "since it is the large classes whose scores are over-confident"
            )
        checked = checked_counts(counts)
        least, span = min(checked), max(checked) - min(checked)
        heights = [math.sin(math.pi / 2 * (n - least) / span) if span else 1.0 for n in checked]
        smoothing = [tail + (head - tail) * height for height in heights]
        self.hold("smoothing", lambda: torch.tensor(smoothing, dtype=torch.float32))

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        own = F.nll_loss(log_p, labels, reduction="none")
        smoothing = self.smoothing[labels]
        return (1 - smoothing) * own - smoothing * log_p.mean(1)
