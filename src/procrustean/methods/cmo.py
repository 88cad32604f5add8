"""CMO (Park et al. 2022): patches of images of all classes alike are pasted onto images as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from procrustean.balance.losses import BalancedSoftmax
from procrustean.balance.objectives import Classify, Reduction
from procrustean.balance.samplers import class_balanced
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.balance.weights import deferred
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage

#: Epochs without pasting at the beginning and at the end.
FIRST, LAST = 4, 3


class Pasting(Classify):
    """CutMix with the second stream of images in front and the first as the background."""

    def __init__(
        self, *, probability: float, loss: nn.Module | None, weight: nn.Module | None, reduction: Reduction
    ) -> None:
        super().__init__(loss=loss, weight=weight, reduction=reduction)
        self.probability = probability
        self.draws: Mapping[str, tuple[int, ...]] = {**self.draws, "paste": (4,)}

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        assert batch.extra is not None
        mask = self.mask(batch, clock)
        scores = net(torch.where(mask, batch.extra.x, batch.x))
        weights = self.class_weights(clock, scores)
        background = 1 - mask.float().mean()
        own = self.reduce(self.sample_loss(scores, batch.y, batch), batch.y, weights)
        pasted = self.reduce(self.sample_loss(scores, batch.extra.y, batch), batch.extra.y, weights)
        return background * own + (1 - background) * pasted

    def mask(self, batch: Batch, clock: Clock) -> Tensor:
        """Which pixels are pasted, bool [H, W]: a box, the same for the whole batch, or none."""
        height, width = batch.x.shape[-2:]
        coin, share, *centre = batch.u["paste"][0].unbind()
        side = torch.sqrt(1 - share)
        rows, columns = (_within(size, side, place) for size, place in zip((height, width), centre, strict=True))
        active = (clock.epoch >= FIRST) & (clock.epoch < clock.epochs - LAST) & (coin < self.probability)
        return rows[:, None] & columns[None, :] & active


def _within(size: int, side: Tensor, place: Tensor) -> Tensor:
    """Which of `size` pixels lie in an interval of `side` times their number about a place in [0, 1)."""
    pixels = torch.arange(size, device=side.device)
    half = (size * side).long() // 2
    centre = (size * place).long()
    return (pixels >= centre - half) & (pixels < centre + half)


def cmo(
    problem: Problem,
    *,
    probability: float = 0.5,
    loss: Literal["cross_entropy", "balanced_softmax"] = "cross_entropy",
    reduction: Reduction = "weighted_mean",
    drw: bool = False,
) -> Method:
    """Context-rich minority oversampling: CutMix whose patches show all classes equally often.

    Formula: x~_i = M x'_i + (1 - M) x_i with x_i as they come, x'_i of a uniform class, M a box of share 1 - l of the
    image, l ~ U(0, 1), once per batch; loss_i = l * CE(x~_i, y_i) + (1 - l) * CE(x~_i, y'_i), l measured on the box
    as it was clipped at the border; from epoch 5 on, not in the last 3 epochs.

    Args:
        probability: share of the batches that are pasted on.
        loss: CE of the scores, or of z_c + log N_c (balanced_softmax).
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        drw: weight each of the two terms by the effective number of its class in the last 20 % of the epochs.
    """
    if not 0 <= probability <= 1:
        raise ConfigError(f"probability = {probability!r} received; it is the share of the batches, from 0 to 1")
    balanced = loss == "balanced_softmax"
    if balanced and drw:
        raise ConfigError("drw with loss = 'balanced_softmax' would count the class sizes twice; choose one of them")
    objective = Pasting(
        probability=probability,
        loss=BalancedSoftmax(problem.counts, reduction="none") if balanced else None,
        weight=deferred(problem.counts, drw),
        reduction=reduction,
    )
    stage = Stage(objective, extra=class_balanced)
    return Method(
        stages=(stage,), label="CMO" + "-BS" * balanced + "-DRW" * drw, own=published(problem.source, ldam_schedule())
    )
