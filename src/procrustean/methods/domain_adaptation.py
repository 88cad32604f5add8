"""DA (Jamal et al. 2020): class weights, corrected per sample by what a small balanced set says of the step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.objectives import Objective
from procrustean.balance.samplers import in_turn
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.balance.weights import effective_number
from procrustean.base.epochs import whole_epochs
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import published
from procrustean.methods.lookahead import effects
from procrustean.methods.method import Method, Stage


class ConditionalWeights(Objective):
    """Plain cross-entropy at first; then class weights plus a weight per sample from one look ahead."""

    compilable = False  # the compiler does not differentiate forwards
    class_weights: Tensor

    def __init__(self, class_weights: Tensor, *, start: float, rate: float) -> None:
        super().__init__()
        self.register_buffer("class_weights", class_weights)
        self.start, self.rate = start, rate

    def phase_at(self, epoch: int, epochs: int) -> int:
        return int(epoch >= whole_epochs(self.start, epochs))

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        if self.phase == 0:
            return F.cross_entropy(net(batch.x), batch.y)
        weights = self.class_weights[batch.y] + self.corrections(net, batch, clock)
        return torch.mean(weights * F.cross_entropy(net(batch.x), batch.y, reduction="none"))

    def show(self, net: nn.Module, batch: Batch, clock: Clock) -> None:
        net(batch.x)  # the looks ahead leave the statistics alone

    def corrections(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        """eps of the formula, [B]: new for every step, starting at 0."""
        # A sum, not a mean: the step that is tried out is B times as long as the one that is made.
        _, slopes = effects(net, batch, lambda losses: torch.sum(self.class_weights[batch.y] * losses), clock.lr)
        return -self.rate * slopes


def domain_adaptation(problem: Problem, *, beta: float = 0.9999, start: float = 0.8, rate: float = 0.01) -> Method:
    """Class-balanced weights plus a weight per sample and step, chosen by a balanced set of 10 images per class.

    Formula: CE in the first 80 % of the epochs; then w'(e) = w - lr * grad_w sum_i (c_{y_i} + e_i) l_i with
    c_k = (1 - b) / (1 - b^N_k), scaled to sum to C; eps_i = -rate * d/de_i mean CE of w'(e) on a batch of the balanced
    set, at e = 0; loss = mean_i (c_{y_i} + eps_i) l_i.

    Args:
        beta: b of the class weights; 0 weights all classes alike.
        start: share of the epochs after which the weights set in.
        rate: how far the weights of the samples follow their gradient; 0 leaves the class weights.
    """
    if not 0 <= start <= 1:
        raise ConfigError(f"start = {start!r} received; the weights set in at a share of the epochs, from 0 to 1")
    if not rate >= 0:
        raise ConfigError(f"rate = {rate!r} received; the weights follow their gradient by 0 or more")
    objective = ConditionalWeights(effective_number(problem.counts, beta), start=start, rate=rate)
    own = {
        "epochs": 200, "batch_size": 100, "nesterov": True, "weight_decay": 5e-4, "warmup_epochs": 0,
        "schedule": "steps", "milestones": (0.8, 0.9), "decay": 0.01,
    }  # fmt: skip
    return Method((Stage(objective, extra=in_turn, extra_from="meta"),), label="DA", own=published(problem.source, own))
