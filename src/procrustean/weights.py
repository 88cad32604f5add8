"""Class weights: effective numbers, powers of the frequency, and the schedule that defers them (DRW).

All weights are scaled to sum to C, the number of classes, so that they are 1 on average over the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .counts import checked_counts
from .errors import ConfigError
from .types import Clock


def effective_number(counts: Sequence[int], beta: float = 0.9999) -> Tensor:
    """Class-balanced weights (Cui et al. 2019), (1 - b) / (1 - b^n) scaled to sum to C, the classes; [C].

    >>> effective_number([10, 10], beta=0.0).tolist()
    [1.0, 1.0]
    """
    if not 0.0 <= beta < 1.0:
        raise ConfigError(f"beta = {beta!r} received; effective numbers need 0 <= beta < 1 (0.9999 is usual)")
    checked = checked_counts(counts)
    # expm1 keeps all digits of 1 - b^n where b^n is close to 1.
    weights = [1.0 if beta == 0.0 else (1.0 - beta) / -math.expm1(n * math.log(beta)) for n in checked]
    return _scaled(weights)


def power_law(counts: Sequence[int], exponent: float) -> Tensor:
    """n^exponent, scaled to sum to the number of classes; [C].

    Exponent 0 weights all classes alike, -1 by inverse frequency, -0.5 by its square root; positive exponents favour
    large classes.

    >>> power_law([9, 1], -0.5).tolist()
    [0.5, 1.5]
    """
    if not math.isfinite(exponent):
        raise ConfigError(f"exponent = {exponent!r} received; a power of the class counts needs a finite one")
    checked = checked_counts(counts)
    # Relative to the class with the largest weight, so that nothing overflows.
    top = max(checked) if exponent > 0 else min(checked)
    return _scaled([(n / top) ** exponent for n in checked])


def inverse_frequency(counts: Sequence[int], power: float = 1.0) -> Tensor:
    """1 / n^power, scaled to sum to the number of classes; [C]."""
    return power_law(counts, -power)


def inverse_square_root(counts: Sequence[int]) -> Tensor:
    """1 / sqrt(n), half-way between equal weights and inverse frequency, scaled to sum to C; [C]."""
    return power_law(counts, -0.5)


def _scaled(weights: list[float]) -> Tensor:
    total = math.fsum(weights)
    return torch.tensor([w * len(weights) / total for w in weights], dtype=torch.float32)


class FixedWeights(nn.Module):
    """The same class weights throughout training."""

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, clock: Clock) -> Tensor:
        return self.weights


class DeferredWeights(nn.Module):
    """Deferred re-weighting (DRW, Cao et al. 2019): ones, then the weights from `start` of the stage on."""

    weights: Tensor

    def __init__(self, weights: Tensor, start: float = 0.8) -> None:
        super().__init__()
        if not 0.0 <= start <= 1.0:
            raise ConfigError(f"start = {start!r} received; DRW starts at a share of the epochs, from 0 to 1")
        self.register_buffer("weights", weights)
        self.start = start

    def set_in(self, clock: Clock) -> Tensor:
        """Whether the weights have set in, a 0-d boolean."""
        # The hair's breadth: 0.7 * 90 is 63 epochs, not the 62 that rounding makes of it.
        return clock.epoch >= int(self.start * clock.epochs + 1e-9)

    def forward(self, clock: Clock) -> Tensor:
        # A `where` on the device, not an `if`: the captured step stays the same before and after.
        return torch.where(self.set_in(clock), self.weights, 1.0)


def deferred(counts: Sequence[int], drw: bool, *, start: float = 0.8, beta: float = 0.9999) -> DeferredWeights | None:
    """What a method's `drw` stands for: effective-number weights from 80 % of the epochs on, or nothing."""
    return DeferredWeights(effective_number(counts, beta), start) if drw else None
