"""The kernels as functions of tensors: each launches one and allocates what it returns."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from procrustean.balance.triton_launch import launch
from procrustean.nets.kernels import device_code as kernels

#: Pixels per program of the convolutions and of the gradients that gather statistics, by channels; measured on an H200.
CONV_BLOCK = {16: 512, 32: 256, 64: 64}
#: The same for convolutions and gradients without statistics: no partial sums ask for large blocks.
PLAIN_BLOCK = {16: 256, 32: 128, 64: 64}
#: Numbers per program of passes without taps, and of those that gather statistics: fewer parts are merged sooner.
PASS_BLOCK, SUMS_BLOCK = 2048, 8192
#: Pixels per part of a weight gradient, by output channels: enough parts to fill the chip, few enough to sum cheaply.
WEIGHT_PART = {16: 512, 32: 512, 64: 256}
#: Numbers of a weight gradient per program that sums its parts.
WEIGHT_SUMS_BLOCK = 32
#: Numbers of partial sums that are merged at a time.
CHUNK = 2048


class Layer(NamedTuple):
    """The sizes of a convolution, which the kernels are compiled for."""

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


class Norm(NamedTuple):
    """A batch normalisation in training: its parameters, running statistics, and what the kernels count with."""

    gamma: Tensor  # [C] float32
    beta: Tensor
    running_mean: Tensor
    running_var: Tensor
    momentum: float
    eps: float
    tickets: Tensor  # [2] int32 zeros, for forward and backward: programs that have finished their part


def conv(x: Tensor, weight: Tensor, norm: Norm, layer: Layer) -> tuple[Tensor, Tensor]:
    """The convolution's output y and its statistics [4, CO]; running statistics are updated."""
    y = _like(x, layer.CO, layer.H_OUT, layer.W_OUT)
    block = block_of(layer.pixels_out, CONV_BLOCK[layer.CO])
    parts = len(x) * layer.pixels_out // block
    partial = torch.empty((parts, 2, layer.CO), device=x.device)
    statistics = torch.empty((4, layer.CO), device=x.device)
    launch(
        kernels.conv_forward, (parts,), x, weight, y, partial, norm.tickets, norm.gamma, norm.beta, statistics,
        norm.running_mean, norm.running_var, norm.momentum, norm.eps,
        **layer._asdict(), CI_PAD=layer.ci_padded,
        BLOCK=block, CHUNK=CHUNK // layer.CO, num_warps=4, num_stages=3,
    )  # fmt: skip
    return y, statistics


def conv_alone(x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
    """The convolution's output."""
    y = _like(x, layer.CO, layer.H_OUT, layer.W_OUT)
    block = block_of(layer.pixels_out, PLAIN_BLOCK[layer.CO])
    launch(
        kernels.conv_alone, (len(x) * layer.pixels_out // block,), x, weight, y,
        **layer._asdict(), CI_PAD=layer.ci_padded, BLOCK=block, num_warps=4, num_stages=3,
    )  # fmt: skip
    return y


def activate(y: Tensor, statistics: Tensor, residual: Tensor | None) -> Tensor:
    """relu(batch_norm(y) + residual)."""
    out = torch.empty_like(y)
    rows, programs = _rows(y, PASS_BLOCK)
    launch(
        kernels.activate, (programs,), y, statistics, residual, out,
        C=y.shape[1], HAS_RESIDUAL=residual is not None, BLOCK=rows, num_warps=4,
    )  # fmt: skip
    return out


def affine_gradients(dout: Tensor, out: Tensor, y: Tensor, statistics: Tensor, tickets: Tensor) -> Tensor:
    """[2, C]: the gradients of gamma and beta."""
    rows, programs = _rows(y, SUMS_BLOCK)
    partial = torch.empty((programs, 2, y.shape[1]), device=y.device)
    affine = torch.empty((2, y.shape[1]), device=y.device)
    launch(
        kernels.backward_sums, (programs,), dout, out, y, statistics, partial, tickets[1:], affine,
        C=y.shape[1], BLOCK=rows, CHUNK=CHUNK // y.shape[1], num_warps=4,
    )  # fmt: skip
    return affine


def through_norm(
    dout: Tensor, out: Tensor | None, y: Tensor, statistics: Tensor, affine: Tensor, dresidual: Tensor | None = None
) -> Tensor:
    """The gradient of y; `dout` is behind the ReLU already where there is no `out`. Fills `dresidual` if given."""
    rows, programs = _rows(y, PASS_BLOCK)
    dy = torch.empty_like(y)
    launch(
        kernels.backward_normalise, (programs,),
        dout, out, y, statistics, affine, dy, dresidual, y.numel() // y.shape[1],
        C=y.shape[1], BEHIND_RELU=out is None, HAS_RESIDUAL=dresidual is not None, BLOCK=rows, num_warps=4,
    )  # fmt: skip
    return dy


def input_gradient(dy: Tensor, weight: Tensor, layer: Layer, shortcut: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """The gradient of the input; `shortcut` is (dout, out) of out = relu(... + input)."""
    dx, programs, options = _input_gradient_launch(dy, layer, PLAIN_BLOCK)
    launch(
        kernels.conv_backward_input, (programs,), dy, weight, dx, *(shortcut or (None, None)), *[None] * 5,
        NORMALISED=False, SHORTCUT=shortcut is not None, **options,
    )  # fmt: skip
    return dx


def input_gradient_through_norm(
    dy: Tensor, weight: Tensor, layer: Layer, y: Tensor, statistics: Tensor, tickets: Tensor
) -> tuple[Tensor, Tensor]:
    """Where the input was relu(batch_norm(y)): the gradient behind that ReLU, and of gamma and beta [2, CI]."""
    dz, programs, options = _input_gradient_launch(dy, layer, CONV_BLOCK)
    partial = torch.empty((programs, 2, layer.CI), device=y.device)
    affine = torch.empty((2, layer.CI), device=y.device)
    launch(
        kernels.conv_backward_input, (programs,),
        dy, weight, dz, None, None, y, statistics, partial, tickets[1:], affine,
        NORMALISED=True, SHORTCUT=False, **options,
    )  # fmt: skip
    return dz, affine


def weight_gradient(x: Tensor, dy: Tensor, weight: Tensor, layer: Layer) -> Tensor:
    ci_pad, co = layer.ci_padded, layer.CO
    pixels, block = len(x) * layer.pixels_out, 64
    blocks = WEIGHT_PART[co] // block
    parts = -(-pixels // (block * blocks))
    partial = torch.empty((parts, 9, ci_pad, co), device=x.device)
    if layer.CI == co == 16 and layer.STRIDE == 1:
        launch(
            kernels.conv_backward_weight_thin, (parts,), x, dy, partial, pixels,
            H=layer.H_IN, W=layer.W_IN, CI=layer.CI, CO=co, BLOCK=block, BLOCKS=blocks, num_warps=2, num_stages=2,
        )  # fmt: skip
    else:
        launch(
            kernels.conv_backward_weight, (parts, 3), x, dy, partial, pixels,
            **layer._asdict(), CI_PAD=ci_pad, BLOCK=block, BLOCKS=blocks,
            num_warps={16: 1, 32: 2, 64: 4}[co], num_stages=2,
        )  # fmt: skip
    gradient = torch.empty_like(weight, memory_format=torch.channels_last)
    launch(
        kernels.sum_weight_parts, (9 * ci_pad * co // WEIGHT_SUMS_BLOCK,), partial, gradient, parts,
        CHUNK=CHUNK // WEIGHT_SUMS_BLOCK, CI=layer.CI, CI_PAD=ci_pad, CO=co, BLOCK=WEIGHT_SUMS_BLOCK, num_warps=4,
    )  # fmt: skip
    return gradient


def supported(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether the kernels cover this layer: a GPU, bf16, few channels, images that fall into whole blocks."""
    co, ci = weight.shape[:2]
    if not (x.is_cuda and x.dtype == weight.dtype == torch.bfloat16 and co in CONV_BLOCK):
        return False
    if ci not in CONV_BLOCK and (ci > 16 or x.requires_grad):
        return False
    layer = Layer.of(x, weight, stride)
    sides = ((layer.pixels_out, co), (layer.H_IN * layer.W_IN, ci))
    return all(block_of(pixels, PLAIN_BLOCK[c]) >= 32 for pixels, c in sides if c in CONV_BLOCK)


def block_of(pixels_per_image: int, largest: int) -> int:
    """Pixels per program: the largest power of two up to `largest` that divides the pixels of an image."""
    block = 1
    while block * 2 <= largest and pixels_per_image % (block * 2) == 0:
        block *= 2
    return block


def _like(x: Tensor, channels: int, height: int, width: int) -> Tensor:
    """Room for as many images of another shape, channels last."""
    shape = (len(x), channels, height, width)
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


def _rows(y: Tensor, numbers: int) -> tuple[int, int]:
    """Pixels per program of a pass without taps over so many numbers, and the number of programs."""
    images, channels, height, width = y.shape
    rows = block_of(height * width, numbers // channels)
    return rows, images * height * width // rows


def _input_gradient_launch(dy: Tensor, layer: Layer, blocks: dict[int, int]) -> tuple[Tensor, int, dict[str, int]]:
    dx = _like(dy, layer.CI, layer.H_IN, layer.W_IN)
    block = block_of(layer.H_IN * layer.W_IN, blocks[layer.CI])
    options = {**layer._asdict(), "BLOCK": block, "CHUNK": CHUNK // layer.CI, "num_warps": 4, "num_stages": 3}
    return dx, dx.numel() // layer.CI // block, options
