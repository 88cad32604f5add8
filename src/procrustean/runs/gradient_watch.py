"""Looks on while a method is tried, whether what it minimises has a gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.base.errors import NoGradient
from procrustean.methods.base import Stage


class GradientWatch:
    """Looks on while a method is trained, whether the loss of each stage has a gradient at all.

    Weights change without one as well: they decay, and batch normalisation keeps its statistics.
    """

    def __init__(self) -> None:
        self._stages: dict[nn.Module, list[int]] = {}  # numbers of those that minimise it
        self._found: dict[nn.Module, bool] = {}

    def look_at(self, stages: Sequence[Stage]) -> None:
        for number, stage in enumerate(stages, 1):
            self._stages.setdefault(stage.objective, []).append(number)
        for objective in self._stages:
            objective.register_forward_hook(self._look)

    def faults(self) -> Iterator[str]:
        several = sum(map(len, self._stages.values())) > 1
        for objective, found in self._found.items():
            if not found:
                where = f" of {_stages_text(self._stages[objective])}" if several else ""
                yield f"the loss{where} has no gradient, so nothing is learnt: it does not depend on the scores"

    def _look(self, objective: nn.Module, inputs: tuple[Any, ...], loss: Tensor) -> None:
        """After a step's loss; once a gradient was found there is nothing more to find out."""
        if self._found.setdefault(objective, False):
            return
        parameters = [parameter for parameter in inputs[0].parameters() if parameter.requires_grad]
        gradients = (
            torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) if loss.requires_grad else ()
        )
        if all(gradient is None for gradient in gradients):  # no weight is part of it, and the step would fail
            raise NoGradient("the loss does not depend on the network")
        self._found[objective] = any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def _stages_text(numbers: Sequence[int]) -> str:
    return f"stage{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"
