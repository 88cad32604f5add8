"""relu(group_norm(conv3x3(x)) + residual) as one differentiable operation on hand-written kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from procrustean.balance.triton_launch import compiling_only, launch
from procrustean.nets.kernels import group_norm_code as kernels
from procrustean.nets.kernels import passes
from procrustean.nets.kernels.passes import CHUNK, CONV_BLOCK, Layer

#: Most numbers of an image that a program holds: 32 for each of 512 threads.
LARGEST_IMAGE = 16384


class ConvGnReLU(torch.autograd.Function):
    """Training only."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, CI, H, W] channels last
        weight: Tensor,  # [CO, CI, 3, 3] channels last
        gamma: Tensor,  # [CO] float32
        beta: Tensor,
        residual: Tensor | None,  # like the output
        groups: int,
        eps: float,
        tickets: Tensor,  # [2] int32 zeros, the second for backward: programs that have finished their part
        stride: int,
    ) -> Tensor:
        layer = Layer.of(x, weight, stride)
        y = passes.conv_alone(x, weight, layer)
        out, norm = torch.empty_like(y), torch.empty((len(y), 2, layer.CO), device=y.device)
        launch(
            kernels.normalise, (len(y),), y, gamma, beta, residual, out, norm, eps,
            GROUPS=groups, HAS_RESIDUAL=residual is not None, **_image_of(layer),
        )  # fmt: skip
        saved = (x, weight, gamma, y, out, norm, tickets)
        has_residual = residual is not None
        if compiling_only():
            # Autograd runs backward in a thread of its own, which does not know that kernels are only compiled.
            _backward(layer, groups, has_residual, layer.CI in CONV_BLOCK, out, *saved)
        ctx.save_for_backward(*saved)
        ctx.layer, ctx.groups, ctx.has_residual = layer, groups, has_residual
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dout = gradients[0].contiguous(memory_format=torch.channels_last)
        made = _backward(ctx.layer, ctx.groups, ctx.has_residual, ctx.needs_input_grad[0], dout, *ctx.saved_tensors)
        return *made, None, None, None, None


def _backward(
    layer: Layer,
    groups: int,
    has_residual: bool,
    needs_dx: bool,
    dout: Tensor,
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    y: Tensor,
    out: Tensor,
    norm: Tensor,
    tickets: Tensor,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, weight, gamma, beta and the residual."""
    dy, dresidual = torch.empty_like(y), torch.empty_like(y) if has_residual else None
    partial = torch.empty((len(y), 2, layer.CO), device=y.device)
    affine = torch.empty((2, layer.CO), device=y.device)
    launch(
        kernels.backward, (len(y),), dout, out, y, norm, gamma, dy, dresidual, partial, tickets[1:], affine,
        GROUPS=groups, HAS_RESIDUAL=has_residual, CHUNK=CHUNK // layer.CO, **_image_of(layer),
    )  # fmt: skip
    dx = passes.input_gradient(dy, weight, layer) if needs_dx else None
    return dx, passes.weight_gradient(x, dy, weight, layer), affine[0], affine[1], dresidual


def supported(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether the kernels cover this layer: what those of convolutions do, and images that fit into a program."""
    if not passes.supported(x, weight, stride):
        return False
    layer = Layer.of(x, weight, stride)
    pixels = layer.pixels_out
    return pixels & (pixels - 1) == 0 and pixels * layer.CO <= LARGEST_IMAGE


def _image_of(layer: Layer) -> dict[str, int]:
    return {
        "C": layer.CO, "PIXELS": layer.pixels_out, "num_warps": max(1, layer.pixels_out * layer.CO // 1024)
    }  # fmt: skip
