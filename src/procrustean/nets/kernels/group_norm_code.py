"""Triton kernels for group normalisation: a program owns an image, so its statistics never leave it."""

from __future__ import annotations

import triton
import triton.language as tl

from procrustean.nets.kernels.device_code import merge_sums


@triton.jit
def over_groups(values, C: tl.constexpr, GROUPS: tl.constexpr):
    """For every channel, the sum over the channels of its group, [C]."""
    sums = tl.sum(tl.reshape(values, (GROUPS, C // GROUPS)), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None], (GROUPS, C // GROUPS)), (C,))


@triton.jit
def normalise(
    y_ptr, gamma_ptr, beta_ptr, residual_ptr, out_ptr, norm_ptr, eps,
    C: tl.constexpr, GROUPS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """out = relu(group_norm(y) + residual); norm [images, 2, channels] keeps mean and inverse standard deviation."""
    image = tl.program_id(0)
    c = tl.arange(0, C)
    at = (image * PIXELS + tl.arange(0, PIXELS))[:, None] * C + c[None, :]
    y = tl.load(y_ptr + at).to(tl.float32)
    NUMBERS: tl.constexpr = PIXELS * C // GROUPS
    mean = over_groups(tl.sum(y, axis=0), C, GROUPS) / NUMBERS
    away = y - mean[None, :]
    inverse = 1.0 / tl.sqrt(over_groups(tl.sum(away * away, axis=0), C, GROUPS) / NUMBERS + eps)
    tl.store(norm_ptr + image * 2 * C + c, mean)
    tl.store(norm_ptr + (image * 2 + 1) * C + c, inverse)
    z = away * (inverse * tl.load(gamma_ptr + c))[None, :] + tl.load(beta_ptr + c)[None, :]
    if HAS_RESIDUAL:
        z += tl.load(residual_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, tl.maximum(z, 0.0).to(out_ptr.dtype.element_ty))


@triton.jit
def backward(
    dout_ptr, out_ptr, y_ptr, norm_ptr, gamma_ptr, dy_ptr, dresidual_ptr, part_ptr, ticket_ptr, affine_ptr,
    C: tl.constexpr, GROUPS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, PIXELS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Gradients of y, of the residual, and of gamma and beta, from the gradient of out = relu(...)."""
    image = tl.program_id(0)
    c = tl.arange(0, C)
    at = (image * PIXELS + tl.arange(0, PIXELS))[:, None] * C + c[None, :]
    dz = tl.where(tl.load(out_ptr + at).to(tl.float32) > 0, tl.load(dout_ptr + at).to(tl.float32), 0.0)
    if HAS_RESIDUAL:
        tl.store(dresidual_ptr + at, dz.to(dresidual_ptr.dtype.element_ty))
    mean = tl.load(norm_ptr + image * 2 * C + c)
    inverse = tl.load(norm_ptr + (image * 2 + 1) * C + c)
    x_hat = (tl.load(y_ptr + at).to(tl.float32) - mean[None, :]) * inverse[None, :]
    by_x_hat = tl.sum(dz * x_hat, axis=0)
    alone = tl.sum(dz, axis=0)
    gamma = tl.load(gamma_ptr + c)
    NUMBERS: tl.constexpr = PIXELS * C // GROUPS
    mean_by_x_hat = over_groups(gamma * by_x_hat, C, GROUPS) / NUMBERS
    mean_alone = over_groups(gamma * alone, C, GROUPS) / NUMBERS
    dy = inverse[None, :] * (gamma[None, :] * dz - mean_alone[None, :] - x_hat * mean_by_x_hat[None, :])
    tl.store(dy_ptr + at, dy.to(dy_ptr.dtype.element_ty))
    merge_sums(by_x_hat, alone, part_ptr, ticket_ptr, affine_ptr, c, C, CHUNK)
