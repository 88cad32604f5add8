"""What runs on the GPU: Triton kernels for thin 3 x 3 convolutions with batch normalisation, and for mixing.

cuDNN's tiles are wider than these layers, so most of its work is padding. Here a program owns a block of pixels and all
output channels; activations are channels last, [pixels, channels] in memory. Pixels are numbered over (image, row,
column). Every reduction is over partial sums in a fixed order, so results are deterministic: each program stores its
part, and the one that finishes last merges them all.

A block of pixels never spans two images, so its size depends on the layer alone and a smaller last batch compiles
nothing new. The loops over the nine taps stay loops: they compile three times faster than unrolled and run no slower.

The statistics of a normalised layer travel as `norm`, [4, channels] float32: mean, inverse standard deviation, and the
scale and shift they make with the affine parameters.

Partial sums are merged CHUNK parts at a time. A kernel needs as many registers as its hungriest line: merging all parts
at once, which one program of a launch does, would halve the number of programs that run side by side.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def finished_last(ticket_ptr, programs):
    """Whether every other program of this launch has stored its part; the ticket is ready for the next launch then."""
    tl.debug_barrier()  # all threads of this program have stored theirs
    last = tl.atomic_add(ticket_ptr, 1, sem="acq_rel", scope="gpu") == programs - 1
    if last:
        tl.store(ticket_ptr, 0)
    return last


@triton.jit
def normalised(y, norm_ptr, c, C: tl.constexpr):
    """relu of the normalised y [pixels, channels c], float32."""
    scale = tl.load(norm_ptr + 2 * C + c)
    shift = tl.load(norm_ptr + 3 * C + c)
    return tl.maximum(y.to(tl.float32) * scale[None, :] + shift[None, :], 0.0)


@triton.jit
def convolved(
    x_ptr, w_ptr, pixel,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """conv(x, w) [BLOCK, CO] at some output pixels, float32."""
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
    return total


@triton.jit
def conv_alone(
    x_ptr, w_ptr, y_ptr,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = conv(x, w)."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = convolved(x_ptr, w_ptr, pixel, H_IN, W_IN, H_OUT, W_OUT, CI, CI_PAD, CO, STRIDE, BLOCK)
    tl.store(y_ptr + pixel[:, None] * CO + tl.arange(0, CO)[None, :], total.to(y_ptr.dtype.element_ty))


@triton.jit
def conv_forward(
    x_ptr, w_ptr, y_ptr, part_ptr, ticket_ptr, gamma_ptr, beta_ptr, norm_ptr,
    running_mean_ptr, running_var_ptr, momentum, eps,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CI_PAD: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """y = conv(x, w), and the statistics of y over the batch."""
    block = tl.program_id(0)
    parts = tl.num_programs(0)
    co = tl.arange(0, CO)
    pixel = block * BLOCK + tl.arange(0, BLOCK)
    total = convolved(x_ptr, w_ptr, pixel, H_IN, W_IN, H_OUT, W_OUT, CI, CI_PAD, CO, STRIDE, BLOCK)
    tl.store(y_ptr + pixel[:, None] * CO + co[None, :], total.to(y_ptr.dtype.element_ty))
    # Means and squared deviations of blocks, not sums and squares: merging them loses no digits.
    mean = tl.sum(total, axis=0) / BLOCK
    away = total - mean[None, :]
    tl.store(part_ptr + block * 2 * CO + co, mean)
    tl.store(part_ptr + (block * 2 + 1) * CO + co, tl.sum(away * away, axis=0))
    if finished_last(ticket_ptr, parts):
        # Distances to the first mean are squared, not the means themselves: they are as small as the means differ.
        first_mean = tl.load(part_ptr + co, cache_modifier=".cg")
        distances = tl.zeros((CHUNK, CO), dtype=tl.float32)
        squares = tl.zeros((CHUNK, CO), dtype=tl.float32)
        first = 0
        while first < parts:
            part = first + tl.arange(0, CHUNK)[:, None]
            at = part_ptr + part * 2 * CO + co[None, :]
            means = tl.load(at, mask=part < parts, other=0.0, cache_modifier=".cg")
            distance = tl.where(part < parts, means - first_mean[None, :], 0.0)
            distances += distance
            squares += (
                tl.load(at + CO, mask=part < parts, other=0.0, cache_modifier=".cg") + BLOCK * distance * distance
            )
            first += CHUNK
        distance = tl.sum(distances, axis=0) / parts
        mean = first_mean + distance
        m2 = tl.sum(squares, axis=0) - parts * BLOCK * distance * distance
        pixels = parts * BLOCK
        inverse = 1.0 / tl.sqrt(m2 / pixels + eps)
        scale = tl.load(gamma_ptr + co) * inverse
        tl.store(norm_ptr + co, mean)
        tl.store(norm_ptr + CO + co, inverse)
        tl.store(norm_ptr + 2 * CO + co, scale)
        tl.store(norm_ptr + 3 * CO + co, tl.load(beta_ptr + co) - mean * scale)
        old_mean = tl.load(running_mean_ptr + co)
        old_var = tl.load(running_var_ptr + co)
        tl.store(running_mean_ptr + co, old_mean + momentum * (mean - old_mean))
        tl.store(running_var_ptr + co, old_var + momentum * (m2 / (pixels - 1) - old_var))


@triton.jit
def activate(
    y_ptr, norm_ptr, residual_ptr, out_ptr, C: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out = relu(batch_norm(y) + residual)."""
    c = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    scale = tl.load(norm_ptr + 2 * C + c)
    shift = tl.load(norm_ptr + 3 * C + c)
    z = tl.load(y_ptr + at).to(tl.float32) * scale[None, :] + shift[None, :]
    if HAS_RESIDUAL:
        z += tl.load(residual_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, tl.maximum(z, 0.0).to(out_ptr.dtype.element_ty))


@triton.jit
def merge_sums(by_x_hat, alone, part_ptr, ticket_ptr, affine_ptr, c, C: tl.constexpr, CHUNK: tl.constexpr):
    """affine [2, channels]: what all programs have summed over their pixels, of dz times x-hat and of dz."""
    block = tl.program_id(0)
    parts = tl.num_programs(0)
    tl.store(part_ptr + block * 2 * C + c, by_x_hat)
    tl.store(part_ptr + (block * 2 + 1) * C + c, alone)
    if finished_last(ticket_ptr, parts):
        all_by_x_hat = tl.zeros((CHUNK, C), dtype=tl.float32)
        all_alone = tl.zeros((CHUNK, C), dtype=tl.float32)
        first = 0
        while first < parts:
            part = first + tl.arange(0, CHUNK)[:, None]
            at = part_ptr + part * 2 * C + c[None, :]
            all_by_x_hat += tl.load(at, mask=part < parts, other=0.0, cache_modifier=".cg")
            all_alone += tl.load(at + C, mask=part < parts, other=0.0, cache_modifier=".cg")
            first += CHUNK
        tl.store(affine_ptr + c, tl.sum(all_by_x_hat, axis=0))
        tl.store(affine_ptr + C + c, tl.sum(all_alone, axis=0))


@triton.jit
def merged_sums(dz, y, norm_ptr, part_ptr, ticket_ptr, affine_ptr, c, C: tl.constexpr, CHUNK: tl.constexpr):
    """affine [2, channels]: the gradients of gamma and beta of a normalisation over the batch."""
    mean = tl.load(norm_ptr + c)
    inverse = tl.load(norm_ptr + C + c)
    x_hat = (y.to(tl.float32) - mean[None, :]) * inverse[None, :]
    merge_sums(tl.sum(dz * x_hat, axis=0), tl.sum(dz, axis=0), part_ptr, ticket_ptr, affine_ptr, c, C, CHUNK)


@triton.jit
def backward_sums(
    dout_ptr, out_ptr, y_ptr, norm_ptr, part_ptr, ticket_ptr, affine_ptr,
    C: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradients of gamma and beta, from the gradient of out = relu(...)."""
    c = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    dz = tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, tl.load(dout_ptr + at).to(tl.float32), 0.0)
    merged_sums(dz, tl.load(y_ptr + at), norm_ptr, part_ptr, ticket_ptr, affine_ptr, c, C, CHUNK)


@triton.jit(do_not_specialize=["pixels"])
def backward_normalise(
    dout_ptr, out_ptr, y_ptr, norm_ptr, affine_ptr, dy_ptr, dresidual_ptr, pixels,
    C: tl.constexpr, BEHIND_RELU: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradient of the convolution's output, and of the residual; `dout` is already behind the ReLU, or `out` tells."""
    c = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = pixel[:, None] * C + c[None, :]
    dz = tl.load(dout_ptr + at).to(tl.float32)
    if not BEHIND_RELU:
        dz = tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, dz, 0.0)
    if HAS_RESIDUAL:
        tl.store(dresidual_ptr + at, dz.to(dresidual_ptr.dtype.element_ty))
    mean = tl.load(norm_ptr + c)
    inverse = tl.load(norm_ptr + C + c)
    scale = tl.load(norm_ptr + 2 * C + c)
    mean_dz_x = tl.load(affine_ptr + c) / pixels
    mean_dz = tl.load(affine_ptr + C + c) / pixels
    x_hat = (tl.load(y_ptr + at).to(tl.float32) - mean[None, :]) * inverse[None, :]
    dy = scale[None, :] * (dz - mean_dz[None, :] - x_hat * mean_dz_x[None, :])
    tl.store(dy_ptr + at, dy.to(dy_ptr.dtype.element_ty))


@triton.jit
def conv_backward_input(
    dy_ptr, w_ptr, dx_ptr, dout_ptr, out_ptr, y_ptr, norm_ptr, part_ptr, ticket_ptr, affine_ptr,
    H_IN: tl.constexpr, W_IN: tl.constexpr, H_OUT: tl.constexpr, W_OUT: tl.constexpr,
    CI: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, NORMALISED: tl.constexpr, SHORTCUT: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """dx: each input pixel gathers from the up to nine output pixels it took part in.

    NORMALISED: the input was relu(batch_norm(y)); dx is the gradient behind that ReLU, and the gradients of that
    layer's gamma and beta are made on the way. SHORTCUT: the gradient dout of out = relu(... + input) joins in.
    """
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
    at = pixel[:, None] * CI + ci[None, :]
    if SHORTCUT:
        total += tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, tl.load(dout_ptr + at).to(tl.float32), 0.0)
    if NORMALISED:
        y = tl.load(y_ptr + at)
        total = tl.where(normalised(y, norm_ptr, ci, CI) > 0, total, 0.0)
        dz = total.to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + at, dz)
        merged_sums(dz.to(tl.float32), y, norm_ptr, part_ptr, ticket_ptr, affine_ptr, ci, CI, CHUNK)
    else:
        tl.store(dx_ptr + at, total.to(dx_ptr.dtype.element_ty))


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
