"""Batch-normalised convolutions as differentiable operations on hand-written kernels: one, and a residual block of two.

Two units that know each other skip three passes over the memory: the gradient of the activation between them is taken
behind its ReLU where it is made, and the shortcut's gradient joins where the input's is written. That activation is
stored: computing it again under each of nine taps, forward and for the weights' gradient, costs more than the memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from procrustean.balance.triton_launch import compiling_only
from procrustean.nets.kernels import passes
from procrustean.nets.kernels.passes import Layer, Norm


class ConvBnReLU(torch.autograd.Function):
    """relu(batch_norm(conv3x3(x)) + residual). Training only: batch statistics, running ones updated in place."""

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


class ResidualBlock(torch.autograd.Function):
    """relu(bn2(conv2(relu(bn1(conv1(x))))) + x). Training only; running statistics are updated in place."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, C, H, W] channels last
        weight1: Tensor,  # [C, C, 3, 3] channels last
        gamma1: Tensor,
        beta1: Tensor,
        weight2: Tensor,
        gamma2: Tensor,
        beta2: Tensor,
        norm1: Norm,
        norm2: Norm,
    ) -> Tensor:
        layer = Layer.of(x, weight1, 1)
        y1, statistics1 = passes.conv(x, weight1, norm1, layer)
        between = passes.activate(y1, statistics1, None)
        y2, statistics2 = passes.conv(between, weight2, norm2, layer)
        out = passes.activate(y2, statistics2, x)
        saved = (
            x, between, out, weight1, y1, statistics1, norm1.tickets, weight2, y2, statistics2, norm2.tickets
        )  # fmt: skip
        if compiling_only():
            # Autograd runs backward in a thread of its own, which does not know that kernels are only compiled.
            _block_backward(layer, out, *saved)
        ctx.save_for_backward(*saved)
        ctx.layer = layer
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dout = gradients[0].contiguous(memory_format=torch.channels_last)
        return *_block_backward(ctx.layer, dout, *ctx.saved_tensors), None, None


def _block_backward(
    layer: Layer,
    dout: Tensor,
    x: Tensor,
    between: Tensor,
    out: Tensor,
    weight1: Tensor,
    y1: Tensor,
    statistics1: Tensor,
    tickets1: Tensor,
    weight2: Tensor,
    y2: Tensor,
    statistics2: Tensor,
    tickets2: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of x, and of weight, gamma and beta of the first and the second unit."""
    affine2 = passes.affine_gradients(dout, out, y2, statistics2, tickets2)
    dy2 = passes.through_norm(dout, out, y2, statistics2, affine2)
    dz1, affine1 = passes.input_gradient_through_norm(dy2, weight2, layer, y1, statistics1, tickets1)
    dweight2 = passes.weight_gradient(between, dy2, weight2, layer)
    dy1 = passes.through_norm(dz1, None, y1, statistics1, affine1)
    dx = passes.input_gradient(dy1, weight1, layer, shortcut=(dout, out))
    dweight1 = passes.weight_gradient(x, dy1, weight1, layer)
    return dx, dweight1, affine1[0], affine1[1], dweight2, affine2[0], affine2[1]
