"""tau-norm (Kang et al. 2020): after usual training, the class vectors are brought to more equal lengths."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import decoupling_recipes, ldam_schedule, published
from procrustean.methods.method import Judge, Method, Stage
from procrustean.nets.classifier import Classifier

#: What tau is chosen from; of equally good ones the smallest, which changes least.
GRID = tuple(tenths / 10 for tenths in range(21))


class Rescaling:
    """Rescales the head of a trained network in place."""

    def __init__(self, tau: float | None, keep_bias: bool) -> None:
        self.tau, self.keep_bias = tau, keep_bias

    @torch.no_grad()
    def __call__(self, net: Classifier, judge: Judge | None) -> dict[str, Any]:
        head = net.head
        if not isinstance(head, nn.Linear):
            raise ConfigError(f"tau-norm rescales a linear head, but this network has a {type(head).__name__}")
        if not self.keep_bias and head.bias is not None:
            head.bias.zero_()
        trained = head.weight.clone()
        tau, how = self._chosen(head.weight, trained, judge)
        head.weight.copy_(_rescaled(trained, tau))
        return {"tau": tau, "tau_chosen": how}

    def _chosen(self, weight: Tensor, trained: Tensor, judge: Judge | None) -> tuple[float, str]:
        if self.tau is not None:
            return self.tau, "as given"
        if judge is None:
            return 1.0, "1, since no images are held out"
        accuracies = []
        for tau in GRID:
            weight.copy_(_rescaled(trained, tau))
            accuracies.append(judge())
        return GRID[accuracies.index(max(accuracies))], "on the held-out images"


def _rescaled(weight: Tensor, tau: float) -> Tensor:
    norms = weight.norm(dim=1, keepdim=True)
    return weight / torch.where(norms > 0, norms.pow(tau), 1.0)


def tau_norm(problem: Problem, *, tau: float | None = None, keep_bias: bool = False) -> Method:
    """Usual training, then class vectors divided by a power of their lengths.

    Formula: w_c <- w_c / |w_c|^tau, b_c <- 0; lengths grow with the class size, so large classes lose their advantage.

    Args:
        tau: 0 leaves the class vectors, 1 gives all the same length; default the best of 0, 0.1, ..., 2 on the
            held-out images, or 1 if there are none.
        keep_bias: leave the biases as they were trained.
    """
    if tau is not None and not 0 <= tau < math.inf:
        raise ConfigError(f"tau = {tau!r} received; it has to be 0 (as trained) or more")
    own = published(problem.source, ldam_schedule(), decoupling_recipes())
    return Method(
        stages=(Stage(Classify()),),
        label="tau-norm",
        finish=Rescaling(tau, keep_bias),
        own=own,
        resolved={"tau": "chosen on the held-out images, 1 if there are none" if tau is None else tau},
    )
