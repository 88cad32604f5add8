"""relu(batch_norm(conv3x3(x)) + residual) as one differentiable operation on hand-written kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import device_code as kernels
from .launching import compiling_only, launch

#: Pixels per program of the convolutions, by channels; measured on an H200.
CONV_BLOCK = {16: 512, 32: 256, 64: 64}
#: Most numbers of a tile of partial statistics that a program can hold in registers.
LARGEST_TILE = 16384


class Layer(NamedTuple):
    """The sizes of a layer, which the kernels are compiled for."""

    H_IN: int
    W_IN: int
    H_OUT: int
    W_OUT: int
    CI: int
    CO: int
    STRIDE: int

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, stride: int) -> Layer:
        height, width = x.shape[2:]
        sizes = (height, width, (height - 1) // stride + 1, (width - 1) // stride + 1)
        return cls(*sizes, weight.shape[1], weight.shape[0], stride)

    @property
    def pixels_out(self) -> int:
        """Of one image."""
        return self.H_OUT * self.W_OUT

    @property
    def ci_padded(self) -> int:
        """Tensor cores need at least 16 channels; the three of an image are filled up with zeros in registers."""
        return max(16, self.CI)


class Saved(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    y: Tensor  # the convolution's output
    out: Tensor
    statistics: Tensor  # [2, CO] mean and inverse standard deviation of the batch


class ConvBnReLU(torch.autograd.Function):
    """Training only: batch statistics, running statistics updated in place."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, CI, H, W] channels last
        weight: Tensor,  # [CO, CI, 3, 3] channels last
        gamma: Tensor,  # [CO] float32
        beta: Tensor,
        residual: Tensor | None,  # like the output
        running_mean: Tensor,
        running_var: Tensor,
        stride: int,
        momentum: float,
        eps: float,
    ) -> Tensor:
        layer = Layer.of(x, weight, stride)
        saved = _forward(x, weight, gamma, beta, residual, running_mean, running_var, layer, momentum, eps)
        if compiling_only():
            # Autograd runs backward in a thread of its own, which does not know that kernels are only compiled.
            _backward(saved.out, x, weight, gamma, saved, layer, residual is not None, layer.CI in CONV_BLOCK)
        ctx.save_for_backward(x, weight, gamma, *saved)
        ctx.layer, ctx.has_residual = layer, residual is not None
        return saved.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, gamma, *saved = ctx.saved_tensors
        dout = gradients[0].contiguous(memory_format=torch.channels_last)
        needs_dx = ctx.needs_input_grad[0]
        made = _backward(dout, x, weight, gamma, Saved(*saved), ctx.layer, ctx.has_residual, needs_dx)
        return *made, None, None, None, None, None


def _forward(
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    beta: Tensor,
    residual: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    layer: Layer,
    momentum: float,
    eps: float,
) -> Saved:
    images, co = len(x), layer.CO
    shape = (images, co, layer.H_OUT, layer.W_OUT)
    y = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    out = torch.empty_like(y)
    pixels = images * layer.pixels_out
    block = block_of(layer.pixels_out, CONV_BLOCK[co])
    parts = pixels // block
    partial = torch.empty((2, parts, co), device=x.device)
    statistics = torch.empty((2, co), device=x.device)
    launch(
        kernels.conv_forward, (parts,), x, weight, y, partial[0], partial[1],
        **layer._asdict(), CI_PAD=layer.ci_padded, BLOCK=block, num_warps=4, num_stages=3,
    )  # fmt: skip
    rows = block_of(layer.pixels_out, 8192 // co)
    launch(
        kernels.normalise, (pixels // rows,),
        y, partial[0], partial[1], gamma, beta, residual, out, statistics, running_mean, running_var,
        pixels, parts, momentum, eps,
        C=co, PARTS_PAD=padded(parts), HAS_RESIDUAL=residual is not None, BLOCK=rows, num_warps=4,
    )  # fmt: skip
    return Saved(y, out, statistics)


def _backward(
    dout: Tensor,
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    saved: Saved,
    layer: Layer,
    has_residual: bool,
    needs_dx: bool,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, weight, gamma, beta and the residual."""
    y, out, statistics = saved
    co = layer.CO
    pixels = len(x) * layer.pixels_out
    rows = block_of(layer.pixels_out, 8192 // co)
    parts = pixels // rows
    sums = torch.empty((parts, 2, co), device=x.device)
    launch(kernels.backward_sums, (parts,), dout, out, y, statistics, sums, C=co, BLOCK=rows, num_warps=4)
    dy = torch.empty_like(y)
    dresidual = torch.empty_like(y) if has_residual else None
    affine = torch.empty((2, co), device=x.device)
    launch(
        kernels.backward_normalise, (parts,),
        dout, out, y, statistics, sums, gamma, dy, dresidual, affine[0], affine[1], pixels, parts,
        C=co, PARTS_PAD=padded(parts), HAS_RESIDUAL=has_residual, BLOCK=rows, num_warps=4,
    )  # fmt: skip
    dx = None
    if needs_dx:
        dx = torch.empty_like(x, memory_format=torch.channels_last)
        block = block_of(layer.H_IN * layer.W_IN, CONV_BLOCK[layer.CI])
        launch(
            kernels.conv_backward_input, (x.numel() // layer.CI // block,), dy, weight, dx,
            **layer._asdict(), BLOCK=block, num_warps=4, num_stages=3,
        )  # fmt: skip
    return dx, _weight_gradient(x, dy, weight, layer), affine[0], affine[1], dresidual


def _weight_gradient(x: Tensor, dy: Tensor, weight: Tensor, layer: Layer) -> Tensor:
    ci_pad, co = layer.ci_padded, layer.CO
    block = block_of(layer.pixels_out, 64)
    # A part is an image, or half of a large one: enough programs to fill the chip, few enough parts to sum cheaply.
    blocks = max(1, layer.pixels_out // block // (2 if layer.pixels_out >= 1024 else 1))
    parts = len(x) * layer.pixels_out // (block * blocks)
    partial = torch.empty((parts, 9, ci_pad, co), device=x.device)
    launch(
        kernels.conv_backward_weight, (parts, 9), x, dy, partial,
        **layer._asdict(), CI_PAD=ci_pad, BLOCK=block, BLOCKS=blocks, num_warps=1 if co <= 32 else 4, num_stages=2,
    )  # fmt: skip
    gradient = torch.empty_like(weight, memory_format=torch.channels_last)
    launch(
        kernels.sum_weight_parts, (9 * ci_pad * co // 32,), partial, gradient, parts,
        PARTS_PAD=padded(parts), CI=layer.CI, CI_PAD=ci_pad, CO=co, BLOCK=32, num_warps=4,
    )  # fmt: skip
    return gradient


def block_of(pixels_per_image: int, largest: int) -> int:
    """Pixels per program: the largest power of two up to `largest` that divides the pixels of an image."""
    block = 1
    while block * 2 <= largest and pixels_per_image % (block * 2) == 0:
        block *= 2
    return block


def padded(parts: int) -> int:
    """Tile size for a number of partial sums; small ones share one, so that a short last batch compiles nothing."""
    return max(128, 1 << (parts - 1).bit_length())


def supported(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether the kernels cover this layer: a GPU, bf16, few channels, images that fall into whole blocks."""
    co, ci = weight.shape[:2]
    if not (x.is_cuda and x.dtype == weight.dtype == torch.bfloat16 and co in CONV_BLOCK):
        return False
    if ci not in CONV_BLOCK and (ci > 16 or x.requires_grad):
        return False
    pixels = Layer.of(x, weight, stride).pixels_out
    block = block_of(pixels, min(CONV_BLOCK[co], 8192 // co))
    return block >= 32 and padded(len(x) * pixels // block) * co <= LARGEST_TILE
