"""Class weights: effective numbers, powers of the frequency, the schedule that defers them (DRW), and means by them.

All weights are scaled to sum to C, the number of classes, so that they are 1 on average over the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

import torch
import torch.distributed
from torch import Tensor, nn

from procrustean.balance.class_tensors import HoldsConstants, check_label_range
from procrustean.balance.count_facts import Counts, checked_counts
from procrustean.balance.types import Clock
from procrustean.base.epochs import whole_epochs
from procrustean.base.errors import ConfigError, DataError


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


def global_mean(loss: Tensor, weight: Tensor) -> Tensor:
    """A batch's sum of weighted losses, divided by the sum of its weights, on one process and on several.

    With DistributedDataParallel, which averages gradients, a process that divides by its own weights gives its samples
    another weight than the others have. Here all divide by their common mean, so that the gradient is that of one
    process with all batches. Every process has to call it in the same steps.

        loss = global_mean(F.cross_entropy(logits, labels, weight=w, reduction="sum"), w[labels].sum())
    """
    if not (loss.requires_grad and torch.distributed.is_available() and torch.distributed.is_initialized()):
        return loss / weight
    common = weight.detach().clone()
    torch.distributed.all_reduce(common)
    return loss / (common / torch.distributed.get_world_size())


class FixedWeights(nn.Module):
    """The same class weights throughout training."""

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, clock: Clock) -> Tensor:
        return self.weights


def first_deferred(start: float, epochs: float) -> int:
    """The epoch, from 0, in which deferred weights set in.

    >>> first_deferred(0.8, 200), first_deferred(0.7, 90)
    (160, 63)
    """
    if not 0.0 <= start <= 1.0:
        raise ConfigError(f"start = {start!r} received; DRW starts at a share of the epochs, from 0 to 1")
    return whole_epochs(start, epochs)


class DeferredWeights(nn.Module):
    """Deferred re-weighting (DRW, Cao et al. 2019): ones, then the weights from `start` of the stage on."""

    weights: Tensor

    def __init__(self, weights: Tensor, start: float = 0.8) -> None:
        super().__init__()
        first_deferred(start, 1)  # refuses what is no share
        self.register_buffer("weights", weights)
        self.start = start

    def set_in(self, clock: Clock) -> Tensor:
        """Whether the weights have set in, a 0-d boolean."""
        return clock.epoch >= first_deferred(self.start, clock.epochs)

    def forward(self, clock: Clock) -> Tensor:
        # A `where` on the device, not an `if`: the captured step stays the same before and after.
        return torch.where(self.set_in(clock), self.weights, 1.0)


def epochs_of_setting_in(objective: nn.Module, epochs: int) -> set[int]:
    """The epochs of a stage, from 0, in which deferred weights of its objective set in; none where they never do."""
    starts = [module.start for module in objective.modules() if isinstance(module, DeferredWeights)]
    return {epoch for start in starts if (epoch := first_deferred(start, epochs)) < epochs}


def deferred(counts: Sequence[int], drw: bool, *, start: float = 0.8, beta: float = 0.9999) -> DeferredWeights | None:
    """What a method's `drw` stands for: effective-number weights from 80 % of the epochs on, or nothing."""
    return DeferredWeights(effective_number(counts, beta), start) if drw else None


class DRW(HoldsConstants):
    """Deferred re-weighting (Cao et al. 2019) for any loop: the class weights of an epoch.

        drw = DRW(counts, epochs=200).to(device)
        loss = F.cross_entropy(logits, labels, weight=drw(epoch))

    That mean is of one process; on several use `weighted_mean` or `global_mean`.

    Args:
        counts: training images per class, index = label.
        epochs: length of the training, in the unit in which it is asked later: epochs, or steps.
        start: share of the training after which the weights set in; 0.8 as in the MFW paper.
        beta: of the effective numbers; 0.9999 as in the code of Cao et al.

    >>> drw = DRW([100, 10], epochs=5)
    >>> drw(3), drw(4)
    (tensor([1., 1.]), tensor([0.1826, 1.8174]))
    """

    weights: Tensor

    def __init__(self, counts: Counts, epochs: float, *, start: float = 0.8, beta: float = 0.9999) -> None:
        super().__init__()
        if not (isinstance(epochs, SupportsFloat) and 0 < epochs < math.inf):
            raise ConfigError(f"epochs = {epochs!r} received; give the length of the training, in epochs or steps")
        self.epochs, self.first = epochs, first_deferred(start, epochs)
        checked = checked_counts(counts)
        self.hold("weights", lambda: effective_number(checked, beta))

    def forward(self, epoch: float) -> Tensor:
        """Class weights [C] of an epoch (or step) counted from 0: ones until DRW sets in; they sum to C."""
        if not (isinstance(epoch, SupportsFloat) and epoch >= 0):
            raise ConfigError(
                f"epoch = {epoch!r} received; epochs are counted from 0, so those of this DRW are below {self.epochs}"
            )
        return self.weights if epoch >= self.first else torch.ones_like(self.weights)

    def weighted_mean(self, losses: Tensor, labels: Tensor, epoch: float) -> Tensor:
        """`global_mean` of per-sample losses [B] by the weights of their classes, whatever loss it is."""
        if labels.dim() != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
            raise DataError(
                f"labels of shape {tuple(labels.shape)} and type {labels.dtype} received; give class indices, integers "
                "of shape [batch]"
            )
        if losses.shape != labels.shape:  # of a single number the weights would cancel out unseen
            raise DataError(
                f"losses of shape {tuple(losses.shape)} received for {len(labels)} labels; give one per sample, for "
                'example F.cross_entropy(..., reduction="none")'
            )
        check_label_range(labels, len(self.weights))
        own = self(epoch)[labels.long()]
        return global_mean((own * losses).sum(), own.sum())

    def extra_repr(self) -> str:
        return f"classes={len(self.weights)}, from {self.first} of {self.epochs} on"
