"""Looks on while a method is tried, whether its class weights and mixtures can be meant as they are.

Training asks for their shapes alone: for values it would have to wait for the device in every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.objectives import Classify, Mixer, Mixture, check_mixture
from procrustean.balance.types import Batch
from procrustean.base.user_code import code_name
from procrustean.methods.base import Stage


class ValueWatch:
    """Looks at all that mixers and class weights return."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}  # each fault once, in the order in which they were found

    def look_at(self, stages: Sequence[Stage]) -> None:
        for objective in dict.fromkeys(stage.objective for stage in stages):
            for part in objective.modules():
                if isinstance(part, Mixer):
                    part.register_forward_hook(self._look_at_mixture)
                if isinstance(part, Classify) and isinstance(part.weight, nn.Module):
                    part.weight.register_forward_hook(self._look_at_weights)

    def faults(self) -> Iterator[str]:
        yield from self._found

    def _look_at_weights(self, part: nn.Module, inputs: tuple[Any, ...], weights: Any) -> None:
        if isinstance(weights, Tensor) and not bool((weights >= 0).all()):  # nor is what is no number
            self._found[f"a class weight of {code_name(part)} is not 0 or more"] = None

    def _look_at_mixture(self, mixer: Mixer, inputs: tuple[Batch], mixture: Mixture) -> None:
        (batch,) = inputs
        check_mixture(mixture, mixer, batch)
        order = torch.arange(len(batch.y), device=batch.y.device)
        for mix in mixture.mixes:
            if not torch.equal(mix.partner[mix.inverse], order):
                fault = (
                    f"the inverse in a Mix of {code_name(mixer)} is not that of its partner, so gradients are wrong: "
                    "take batch.partner and batch.inverse, or inverse_permutation(partner) of procrustean.balance"
                )
                self._found[fault] = None
            if mixture.label_weight is not None and not torch.equal(mix.partner, batch.partner):
                fault = (
                    f"{code_name(mixer)} mixes features with other partners than batch.partner, with whose labels the "
                    "labels are mixed: take batch.partner"
                )
                self._found[fault] = None
