"""What runs on the GPU: Triton kernels for thin 3 x 3 convolutions with batch normalisation, and for mixing.

cuDNN's tiles are wider than these layers, so most of its work is padding. Here a program owns a block of pixels and all
output channels; activations are channels last, [pixels, channels] in memory. Pixels are numbered over (image, row,
column). Every reduction is over partial sums in a fixed order, so results are deterministic.

A block of pixels never spans two images, so its size depends on the layer alone and a smaller last batch compiles
nothing new. The loops over the nine taps stay loops: they compile three times faster than unrolled and run no slower.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def conv_forward(
    x_ptr, w_ptr, y_ptr, mean_ptr, m2_ptr,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = conv(x, w), and of each block of pixels the mean and the sum of squared deviations per channel."""
    block = tl.program_id(0)
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    column = pixel % W_OUT
    row = (pixel // W_OUT) % H_OUT
    image = pixel // (W_OUT * H_OUT)
    ci = tl.arange(0, CI_PAD)
    co = tl.arange(0, CO)
    total = tl.zeros((BLOCK, CO), dtype=tl.float32)
    for tap in tl.range(0, 9):
        r = row * STRIDE + tap // 3 - 1
        c = column * STRIDE + tap % 3 - 1
        inside = (r >= 0) & (r < H_IN) & (c >= 0) & (c < W_IN)
        x_at = x_ptr + ((image * H_IN + r) * W_IN + c)[:, None] * CI + ci[None, :]
        w_at = w_ptr + (co[None, :] * 9 + tap) * CI + ci[:, None]
        if CI == CI_PAD:
            x = tl.load(x_at, mask=inside[:, None], other=0.0)
            w = tl.load(w_at)
        else:
            x = tl.load(x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)
            w = tl.load(w_at, mask=(ci < CI)[:, None], other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    tl.store(y_ptr + pixel[:, None] * CO + co[None, :], total.to(y_ptr.dtype.element_ty))
    mean = tl.sum(total, axis=0) / BLOCK
    away = total - mean[None, :]
    tl.store(mean_ptr + block * CO + co, mean)
    tl.store(m2_ptr + block * CO + co, tl.sum(away * away, axis=0))


@triton.jit(do_not_specialize=["pixels", "parts"])
def normalise(
    y_ptr, mean_ptr, m2_ptr, gamma_ptr, beta_ptr, residual_ptr, out_ptr, saved_ptr, running_mean_ptr, running_var_ptr,
    pixels, parts, momentum, eps,
    C: tl.constexpr, PARTS_PAD: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = relu(batch_norm(y) + residual); merges the partial statistics, the first program keeps them."""
    block = tl.program_id(0)
    c = tl.arange(0, C)
    part = tl.arange(0, PARTS_PAD)
    inside = (part < parts)[:, None]
    at = part[:, None] * C + c[None, :]
    means = tl.load(mean_ptr + at, mask=inside, other=0.0)
    mean = tl.sum(means, axis=0) / parts
    away = tl.where(inside, means - mean[None, :], 0.0)
    m2 = tl.sum(tl.load(m2_ptr + at, mask=inside, other=0.0), axis=0) + tl.sum(away * away, axis=0) * (pixels / parts)
    variance = m2 / pixels
    inverse = 1.0 / tl.sqrt(variance + eps)
    if block == 0:
        tl.store(saved_ptr + c, mean)
        tl.store(saved_ptr + C + c, inverse)
        old_mean = tl.load(running_mean_ptr + c)
        old_var = tl.load(running_var_ptr + c)
        tl.store(running_mean_ptr + c, old_mean + momentum * (mean - old_mean))
        tl.store(running_var_ptr + c, old_var + momentum * (m2 / (pixels - 1) - old_var))
    scale = tl.load(gamma_ptr + c) * inverse
    shift = tl.load(beta_ptr + c) - mean * scale
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    z = tl.load(y_ptr + at).to(tl.float32) * scale[None, :] + shift[None, :]
    if HAS_RESIDUAL:
        z += tl.load(residual_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, tl.maximum(z, 0.0).to(out_ptr.dtype.element_ty))


@triton.jit
def backward_sums(
    dout_ptr, out_ptr, y_ptr, saved_ptr, sum_ptr, C: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Of each block of pixels, per channel: the sum of the gradient behind the ReLU, and of it times x-hat."""
    block = tl.program_id(0)
    c = tl.arange(0, C)
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    dz = tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, tl.load(dout_ptr + at).to(tl.float32), 0.0)
    mean = tl.load(saved_ptr + c)
    inverse = tl.load(saved_ptr + C + c)
    x_hat = (tl.load(y_ptr + at).to(tl.float32) - mean[None, :]) * inverse[None, :]
    tl.store(sum_ptr + (block * 2) * C + c, tl.sum(dz, axis=0))
    tl.store(sum_ptr + (block * 2 + 1) * C + c, tl.sum(dz * x_hat, axis=0))


@triton.jit(do_not_specialize=["pixels", "parts"])
def backward_normalise(
    dout_ptr, out_ptr, y_ptr, saved_ptr, sum_ptr, gamma_ptr, dy_ptr, dresidual_ptr, dgamma_ptr, dbeta_ptr,
    pixels, parts,
    C: tl.constexpr, PARTS_PAD: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the convolution's output, of the residual and of the affine parameters."""
    block = tl.program_id(0)
    c = tl.arange(0, C)
    part = tl.arange(0, PARTS_PAD)
    inside = (part < parts)[:, None]
    parts_at = part[:, None] * (2 * C) + c[None, :]
    sum_dz = tl.sum(tl.load(sum_ptr + parts_at, mask=inside, other=0.0), axis=0)
    sum_dz_x = tl.sum(tl.load(sum_ptr + C + parts_at, mask=inside, other=0.0), axis=0)
    if block == 0:
        tl.store(dgamma_ptr + c, sum_dz_x)
        tl.store(dbeta_ptr + c, sum_dz)
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    dz = tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, tl.load(dout_ptr + at).to(tl.float32), 0.0)
    if HAS_RESIDUAL:
        tl.store(dresidual_ptr + at, dz.to(dresidual_ptr.dtype.element_ty))
    mean = tl.load(saved_ptr + c)
    inverse = tl.load(saved_ptr + C + c)
    x_hat = (tl.load(y_ptr + at).to(tl.float32) - mean[None, :]) * inverse[None, :]
    scale = tl.load(gamma_ptr + c) * inverse
    dy = scale[None, :] * (dz - (sum_dz / pixels)[None, :] - x_hat * (sum_dz_x / pixels)[None, :])
    tl.store(dy_ptr + at, dy.to(dy_ptr.dtype.element_ty))


@triton.jit
def conv_backward_input(
    dy_ptr, w_ptr, dx_ptr,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx: each input pixel gathers from the up to nine output pixels it took part in."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = pixel % W_IN
    row = (pixel // W_IN) % H_IN
    image = pixel // (W_IN * H_IN)
    ci = tl.arange(0, CI)
    co = tl.arange(0, CO)
    total = tl.zeros((BLOCK, CI), dtype=tl.float32)
    for tap in tl.range(0, 9):
        r = row + 1 - tap // 3
        c = column + 1 - tap % 3
        inside = (r >= 0) & (c >= 0)
        if STRIDE > 1:
            inside = inside & (r % STRIDE == 0) & (c % STRIDE == 0)
            r = r // STRIDE
            c = c // STRIDE
        inside = inside & (r < H_OUT) & (c < W_OUT)
        dy = tl.load(
            dy_ptr + ((image * H_OUT + r) * W_OUT + c)[:, None] * CO + co[None, :], mask=inside[:, None], other=0.0
        )
        w = tl.load(w_ptr + (co[:, None] * 9 + tap) * CI + ci[None, :])
        total = tl.dot(dy, w, total, input_precision="ieee")
    tl.store(dx_ptr + pixel[:, None] * CI + ci[None, :], total.to(dx_ptr.dtype.element_ty))


@triton.jit
def conv_backward_weight(
    x_ptr, dy_ptr, part_ptr,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    """Partial weight gradients: program (part, tap) sums over BLOCKS blocks of output pixels."""
    part = tl.program_id(0)
    tap = tl.program_id(1)
    ci = tl.arange(0, CI_PAD)
    co = tl.arange(0, CO)
    total = tl.zeros((CI_PAD, CO), dtype=tl.float32)
    for step in range(BLOCKS):
        pixel = (part * BLOCKS + step) * BLOCK + tl.arange(0, BLOCK)
        column = pixel % W_OUT
        row = (pixel // W_OUT) % H_OUT
        image = pixel // (W_OUT * H_OUT)
        r = row * STRIDE + tap // 3 - 1
        c = column * STRIDE + tap % 3 - 1
        inside = (r >= 0) & (r < H_IN) & (c >= 0) & (c < W_IN)
        x_at = x_ptr + ((image * H_IN + r) * W_IN + c)[:, None] * CI + ci[None, :]
        if CI == CI_PAD:
            x = tl.load(x_at, mask=inside[:, None], other=0.0)
        else:
            x = tl.load(x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)
        dy = tl.load(dy_ptr + pixel[:, None] * CO + co[None, :])
        total = tl.dot(tl.trans(x), dy, total, input_precision="ieee")
    at = part_ptr + (part * 9 + tap) * (CI_PAD * CO) + ci[:, None] * CO + co[None, :]
    tl.store(at, total)


@triton.jit(do_not_specialize=["parts"])
def sum_weight_parts(
    part_ptr, dw_ptr, parts,
    PARTS_PAD: tl.constexpr, CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dw[co, tap, ci] = sum over the parts; a program sums BLOCK elements."""
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, PARTS_PAD)
    at = part_ptr + part[:, None] * (9 * CI_PAD * CO) + element[None, :]
    total = tl.sum(tl.load(at, mask=(part < parts)[:, None], other=0.0), axis=0)
    co = element % CO
    ci = (element // CO) % CI_PAD
    tap = element // (CO * CI_PAD)
    tl.store(dw_ptr + (co * 9 + tap) * CI + ci, total.to(dw_ptr.dtype.element_ty), mask=ci < CI)


@triton.jit
def combine(
    rows_ptr, own_ptr, other_ptr, index_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out[n] = own[n] * rows[n] + other[n] * rows[index[n]]; rows of SIZE numbers."""
    row = tl.program_id(0).to(tl.int64)
    partner = tl.load(index_ptr + row)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    mine = tl.load(rows_ptr + row * SIZE + at, mask=inside).to(tl.float32)
    theirs = tl.load(rows_ptr + partner * SIZE + at, mask=inside).to(tl.float32)
    mixed = tl.load(own_ptr + row) * mine + tl.load(other_ptr + row) * theirs
    tl.store(out_ptr + row * SIZE + at, mixed.to(out_ptr.dtype.element_ty), mask=inside)
