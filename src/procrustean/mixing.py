"""Blend the samples of a batch with their partners, at any layer.

MFW, mixup, manifold mixup and Remix are this one mechanism with different weights, layers and labels.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
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


class _Combine(torch.autograd.Function):
    """own[n] * rows[n] + other[n] * rows[index[n]] for a permutation `index`.

    Its gradient is the same operation with the inverse permutation: a gather, deterministic, without atomics.
    """

    @staticmethod
    def forward(rows: Tensor, own: Tensor, other: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and rows.is_cuda and _has_kernel():
            from .kernels.combine import combine_rows, covers

            if covers(rows):
                return combine_rows(rows, own, other, index)
        # index_select returns its result in the default layout; a channels-last map is gathered as [B, H, W, C].
        if rows.dim() == 4 and rows.is_contiguous(memory_format=torch.channels_last):
            gathered = rows.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
        else:
            gathered = rows.index_select(0, index)
        shape = (-1, *[1] * (rows.dim() - 1))
        combined = rows * own.view(shape) + gathered * other.view(shape)
        # Not `.to` where nothing is to be done: it would give one tensor two names, and of a Function that has such a
        # tensor PyTorch 2.11 loses the gradient when it is compiled, without a word (pytorch#180642).
        return combined if combined.dtype == rows.dtype else combined.to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        own, other, index, inverse = ctx.saved_tensors
        combined = _Combine.apply(gradients[0], own, other[inverse], inverse, index)  # type: ignore[no-untyped-call]
        return combined, None, None, None, None


@cache
def _has_kernel() -> bool:
    return find_spec("triton") is not None


def blend(z: Tensor, mix: Mix) -> Tensor:
    """(1 - weight) * z + weight * z[partner], the gradient flowing through both; z is [B, ...]."""
    weight = mix.weight.to(torch.promote_types(z.dtype, torch.float32))
    blended: Tensor = _Combine.apply(z, 1 - weight, weight, mix.partner, mix.inverse)  # type: ignore[no-untyped-call]
    return blended


class MixPoint:
    """A forward hook on one layer that blends its output with the current mix; without one it does nothing.

    It is a hook, not a wrapper, so the keys of the state dict stay as they are.
    """

    def __init__(self, module: nn.Module, name: str) -> None:
        self.name = name
        self.mix: Mix | None = None
        self._registration = module.register_forward_hook(self._hook)

    def _hook(self, module: nn.Module, args: Any, output: Any) -> Any:
        mix = self.current(module, output)
        return output if mix is None else blend(self.checked(output, mix), mix)

    def current(self, module: nn.Module, output: Any) -> Mix | None:
        """The mix to apply now, to this output."""
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
