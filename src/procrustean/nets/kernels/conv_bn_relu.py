"""relu(batch_norm(conv3x3(x)) + residual) as one differentiable operation on hand-written kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from procrustean.base.triton_launch import compiling_only
from procrustean.nets.kernels import passes
from procrustean.nets.kernels.passes import Layer, Norm


class ConvBnReLU(torch.autograd.Function):
    """Training only: batch statistics, running statistics updated in place."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, CI, H, W] channels last
        weight: Tensor,  # [CO, CI, 3, 3] channels last
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,  # like the output
        norm: Norm,
        stride: int,
    ) -> Tensor:
        layer = Layer.of(x, weight, stride)
        y, statistics = passes.conv(x, weight, norm, layer)
        out = passes.activate(y, statistics, residual)
        has_residual = residual is not None
        saved = (x, weight, y, out, statistics, norm.tickets)
        if compiling_only():
            # Autograd runs backward in a thread of its own, which does not know that kernels are only compiled.
            _backward(layer, has_residual, layer.CI in passes.CONV_BLOCK, out, *saved)
        ctx.save_for_backward(*saved)
        ctx.layer, ctx.has_residual = layer, has_residual
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dout = gradients[0].contiguous(memory_format=torch.channels_last)
        made = _backward(ctx.layer, ctx.has_residual, ctx.needs_input_grad[0], dout, *ctx.saved_tensors)
        return *made, None, None


def _backward(
    layer: Layer,
    has_residual: bool,
    needs_dx: bool,
    dout: Tensor,
    x: Tensor,
    weight: Tensor,
    y: Tensor,
    out: Tensor,
    statistics: Tensor,
    tickets: Tensor,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, weight, gamma, beta and the residual."""
    affine = passes.affine_gradients(dout, out, y, statistics, tickets)
    dresidual = torch.empty_like(y) if has_residual else None
    dy = passes.through_norm(dout, out, y, statistics, affine, dresidual)
    dx = passes.input_gradient(dy, weight, layer) if needs_dx else None
    return dx, passes.weight_gradient(x, dy, weight, layer), affine[0], affine[1], dresidual
