"""Blend the samples of a batch with their partners, at any layer.

MFW, mixup, manifold mixup and Remix are this one mechanism with different weights, layers and labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .errors import LayerError


class Mix(NamedTuple):
    """Sample n becomes (1 - weight[n]) * own + weight[n] * that of sample partner[n]."""

    partner: Tensor  # [B] int64, a permutation
    inverse: Tensor  # [B] int64, its inverse: the backward pass gathers instead of scattering
    weight: Tensor  # [B] float32, the partner's share


def inverse_permutation(partner: Tensor) -> Tensor:
    """The permutation that undoes `partner`, [B]."""
    inverse = torch.empty_like(partner)
    return inverse.scatter_(0, partner, torch.arange(len(partner), device=partner.device))


class _Permute(torch.autograd.Function):
    """Rows in the order of `partner`; the gradient is a gather by the inverse: deterministic, no atomics."""

    @staticmethod
    def forward(rows: Tensor, partner: Tensor, inverse: Tensor) -> Tensor:
        return rows.index_select(0, partner)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        partner, inverse = ctx.saved_tensors
        return _Permute.apply(gradients[0], inverse, partner), None, None  # type: ignore[no-untyped-call]


def blend(z: Tensor, mix: Mix) -> Tensor:
    """(1 - weight) * z + weight * z[partner], the gradient flowing through both; z is [B, ...]."""
    weight = mix.weight.to(z.dtype).view(-1, *[1] * (z.dim() - 1))
    partner: Tensor = _Permute.apply(z, mix.partner, mix.inverse)  # type: ignore[no-untyped-call]
    return torch.lerp(z, partner, weight)


class MixPoint:
    """A forward hook on one layer that blends its output with the current mix; without one it does nothing.

    It is a hook, not a wrapper, so the keys of the state dict stay as they are.
    """

    def __init__(self, module: nn.Module, name: str) -> None:
        self.name = name
        self.mix: Mix | None = None
        self._registration = module.register_forward_hook(self._hook)

    def _hook(self, module: nn.Module, args: Any, output: Any) -> Any:
        mix = self.current(module)
        return output if mix is None else blend(self.checked(output, mix), mix)

    def current(self, module: nn.Module) -> Mix | None:
        """The mix to apply now."""
        return self.mix

    def checked(self, output: Any, mix: Mix) -> Tensor:
        """The layer's output if it can be mixed, else a LayerError."""
        if not isinstance(output, Tensor) or not output.is_floating_point():
            raise LayerError(
                f"layer {self.name!r} returns {type(output).__name__}, not a floating-point tensor; "
                "choose a layer whose output is one tensor with the batch as its first dimension"
            )
        if output.dim() == 0 or output.shape[0] != mix.partner.shape[0]:
            raise LayerError(
                f"layer {self.name!r} returns shape {tuple(output.shape)} for {mix.partner.shape[0]} labels; "
                "its first dimension has to be the batch the labels belong to"
            )
        return output

    def remove(self) -> None:
        """Take the hook off the layer."""
        self._registration.remove()
