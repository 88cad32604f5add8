"""Triton kernels for the gradients of convolution weights: partial sums over blocks of pixels, and their total."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tap_input(
    x_ptr, real, image, r, c, ci, H_IN: tl.constexpr, W_IN: tl.constexpr, CI: tl.constexpr, CI_PAD: tl.constexpr
):  # fmt: skip
    """The input [pixels, channels] under one tap, zero outside the image."""
    inside = real & (r >= 0) & (r < H_IN) & (c >= 0) & (c < W_IN)
    x_at = x_ptr + ((image * H_IN + r) * W_IN + c)[:, None] * CI + ci[None, :]
    if CI == CI_PAD:
        return tl.load(x_at, mask=inside[:, None], other=0.0)
    else:
        return tl.load(x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)


@triton.jit(do_not_specialize=["pixels"])
def conv_backward_weight(
    x_ptr, dy_ptr, part_ptr, pixels,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Partial weight gradients: program (part, row of taps) sums over BLOCKS blocks of output pixels.

    The three taps of a row share the loads of dy, and find each other's x in the nearest cache.
    """
    part = tl.program_id(0)
    taps = tl.program_id(1)
    ci = tl.arange(0, CI_PAD)
    co = tl.arange(0, CO)
    left = tl.zeros((CI_PAD, CO), dtype=tl.float32)
    middle = tl.zeros((CI_PAD, CO), dtype=tl.float32)
    right = tl.zeros((CI_PAD, CO), dtype=tl.float32)
    for step in range(BLOCKS):
        pixel = (part * BLOCKS + step) * BLOCK + tl.arange(0, BLOCK)
        c = pixel % W_OUT * STRIDE
        r = (pixel // W_OUT) % H_OUT * STRIDE + taps - 1
        image = pixel // (W_OUT * H_OUT)
        real = pixel < pixels
        dy = tl.load(dy_ptr + pixel[:, None] * CO + co[None, :], mask=real[:, None], other=0.0)
        x = tap_input(x_ptr, real, image, r, c - 1, ci, H_IN, W_IN, CI, CI_PAD)
        left = tl.dot(tl.trans(x), dy, left, input_precision="ieee")
        x = tap_input(x_ptr, real, image, r, c, ci, H_IN, W_IN, CI, CI_PAD)
        middle = tl.dot(tl.trans(x), dy, middle, input_precision="ieee")
        x = tap_input(x_ptr, real, image, r, c + 1, ci, H_IN, W_IN, CI, CI_PAD)
        right = tl.dot(tl.trans(x), dy, right, input_precision="ieee")
    at = part_ptr + (part * 9 + taps * 3) * (CI_PAD * CO) + ci[:, None] * CO + co[None, :]
    tl.store(at, left)
    tl.store(at + CI_PAD * CO, middle)
    tl.store(at + 2 * CI_PAD * CO, right)


@triton.jit(do_not_specialize=["pixels"])
def conv_backward_weight_thin(
    x_ptr, dy_ptr, part_ptr, pixels,
    H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The same for few channels at stride 1: all nine taps at once, from half of the loads.

    With q a pixel of x, dw[tap] sums x[q] times dy[q - tap]. A row of taps shares the load of x, and the three columns
    are one product with dy as it stands one pixel to the right, in place, and one to the left, side by side.
    """
    part = tl.program_id(0)
    ci = tl.arange(0, CI)
    beside = tl.arange(0, 4 * CO)  # a fourth column, of zeros, makes it a power of two
    tap = beside // CO
    co = beside % CO
    above = tl.zeros((CI, 4 * CO), dtype=tl.float32)
    level = tl.zeros((CI, 4 * CO), dtype=tl.float32)
    below = tl.zeros((CI, 4 * CO), dtype=tl.float32)
    for step in range(BLOCKS):
        pixel = (part * BLOCKS + step) * BLOCK + tl.arange(0, BLOCK)
        row = (pixel // W) % H
        real = pixel < pixels
        c = (pixel % W)[:, None] + 1 - tap[None, :]
        inside = real[:, None] & (c >= 0) & (c < W) & (tap < 3)[None, :]
        dy = tl.load(dy_ptr + (pixel[:, None] + 1 - tap[None, :]) * CO + co[None, :], mask=inside, other=0.0)
        x_at = x_ptr + pixel[:, None] * CI + ci[None, :]
        x = tl.load(x_at - W * CI, mask=(real & (row > 0))[:, None], other=0.0)
        above = tl.dot(tl.trans(x), dy, above, input_precision="ieee")
        x = tl.load(x_at, mask=real[:, None], other=0.0)
        level = tl.dot(tl.trans(x), dy, level, input_precision="ieee")
        x = tl.load(x_at + W * CI, mask=(real & (row < H - 1))[:, None], other=0.0)
        below = tl.dot(tl.trans(x), dy, below, input_precision="ieee")
    at = part_ptr + (part * 9 + tap[None, :]) * (CI * CO) + ci[:, None] * CO + co[None, :]
    tl.store(at, above, mask=(tap < 3)[None, :])
    tl.store(at + 3 * CI * CO, level, mask=(tap < 3)[None, :])
    tl.store(at + 6 * CI * CO, below, mask=(tap < 3)[None, :])


@triton.jit(do_not_specialize=["parts"])
def sum_weight_parts(
    part_ptr, dw_ptr, parts,
    CHUNK: tl.constexpr, CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dw[co, tap, ci] = sum over the parts; a program sums BLOCK elements."""
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((CHUNK, BLOCK), dtype=tl.float32)
    first = 0
    while first < parts:
        part = first + tl.arange(0, CHUNK)[:, None]
        sums += tl.load(part_ptr + part * (9 * CI_PAD * CO) + element[None, :], mask=part < parts, other=0.0)
        first += CHUNK
    total = tl.sum(sums, axis=0)
    co = element % CO
    ci = (element // CO) % CI_PAD
    tap = element // (CO * CI_PAD)
    tl.store(dw_ptr + (co * 9 + tap) * CI + ci, total.to(dw_ptr.dtype.element_ty), mask=ci < CI)
