"""Scores divided and shifted by class: VS (Kini et al. 2021), and CDT, logit adjustment and balanced softmax in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from procrustean.balance.count_facts import checked_counts
from procrustean.balance.losses.base import CrossEntropy, Reduction
from procrustean.base.errors import ConfigError


class VS(CrossEntropy):
    """Vector scaling: cross-entropy of z_c / a_c + tau * log(n_c / N), a_c = (n_max / n_c)^gamma.

    Only the training loss is adjusted; predict with the plain scores.

    Args:
        counts: training images per class, index = label.
        gamma: exponent of the temperatures a; 0 leaves `LogitAdjusted`.
        tau: strength of the shift; 0 leaves `CDT`.
        reduction: "mean" or "none".

    >>> loss = VS([30, 10])
    >>> loss.temperatures, loss.shifts
    (tensor([1.0000, 1.2457]), tensor([-0.3452, -1.6636]))
    """

    temperatures: Tensor
    shifts: Tensor

    def __init__(
        self, counts: Sequence[int], gamma: float = 0.2, tau: float = 1.2, *, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        for name, value in (("gamma", gamma), ("tau", tau)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} = {value!r} received; it has to be 0 (no adjustment) or more")
        checked = checked_counts(counts)
        most, total = max(checked), sum(checked)
        temperatures = [(most / n) ** gamma for n in checked]
        shifts = [tau * math.log(n / total) for n in checked]
        self.hold("temperatures", lambda: torch.tensor(temperatures, dtype=torch.float32))
        self.hold("shifts", lambda: torch.tensor(shifts, dtype=torch.float32))
        self.shifts_scores = tau > 0

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().per_sample(logits / self.temperatures + self.shifts, labels)


class CDT(VS):
    """Class-dependent temperatures (Ye et al. 2020): cross-entropy of z_c / a_c, a_c = (n_max / n_c)^gamma.

    Args:
        counts: training images per class, index = label.
        gamma: exponent of the temperatures; 0 is cross-entropy.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], gamma: float = 0.2, *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, gamma=gamma, tau=0.0, reduction=reduction)


class LogitAdjusted(VS):
    """Logit adjustment (Menon et al. 2021): cross-entropy of z_c + tau * log(n_c / N).

    Args:
        counts: training images per class, index = label.
        tau: strength; 0 is cross-entropy, 1 is consistent for balanced accuracy.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], tau: float = 1.0, *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, gamma=0.0, tau=tau, reduction=reduction)


class BalancedSoftmax(LogitAdjusted):
    """Balanced softmax (Ren et al. 2020): cross-entropy of z_c + log n_c, which is `LogitAdjusted` with tau = 1.

    Args:
        counts: training images per class, index = label.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, tau=1.0, reduction=reduction)
