"""Symmetric Beta random numbers from uniform ones, by a table of quantiles.

A table look-up is one device operation that draws the same numbers on CPU and GPU, takes any generator, and
can be captured or compiled; the samplers behind torch.distributions.Beta do none of these reliably.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from procrustean.base.errors import ConfigError

TABLE_SIZE = 4096
_GRID = 1 << 16


@lru_cache(maxsize=64)
def _quantiles(alpha: float) -> Tensor:
    """Mid-quantiles of Beta(alpha, alpha), float64 [TABLE_SIZE]."""
    # On the logit scale v = log(x / (1 - x)) the density (x (1 - x))^alpha is smooth for any alpha; on [0, 1]
    # it has poles for alpha < 1. Its tails fall like exp(-alpha |v|), its core is sqrt(2 / alpha) wide.
    reach = 40.0 / alpha + 8.0 * (2.0 / alpha) ** 0.5
    # On the CPU whatever the default device is: the table is kept for models of any device.
    v = torch.linspace(-reach, reach, _GRID, dtype=torch.float64, device="cpu")
    log_x, log_rest = torch.nn.functional.logsigmoid(v), torch.nn.functional.logsigmoid(-v)
    density = (alpha * (log_x + log_rest + 2 * math.log(2.0))).exp()
    cumulative = torch.cat([density.new_zeros(1), torch.cumulative_trapezoid(density, v)])
    cumulative = cumulative / cumulative[-1]
    wanted = (torch.arange(TABLE_SIZE, dtype=torch.float64, device="cpu") + 0.5) / TABLE_SIZE
    right = torch.searchsorted(cumulative, wanted).clamp(1, _GRID - 1)
    left = right - 1
    share = (wanted - cumulative[left]) / (cumulative[right] - cumulative[left])
    return torch.sigmoid(torch.lerp(v[left], v[right], share))


def beta_quantiles(alpha: float) -> Tensor:
    """Table of Beta(alpha, alpha) quantiles, float32 [4096]; every entry is equally likely.

    >>> table = beta_quantiles(1.0)
    >>> table.shape, round(table.mean().item(), 4)
    (torch.Size([4096]), 0.5)
    """
    if not 0.001 <= alpha <= 10_000:
        raise ConfigError(f"alpha = {alpha!r} received; Beta(alpha, alpha) needs alpha from 0.001 to 10000")
    return _quantiles(float(alpha)).to(torch.get_default_device(), torch.float32)


def from_uniform(table: Tensor, u: Tensor) -> Tensor:
    """Beta draws for uniforms u in [0, 1), same shape as u."""
    return table[(u * TABLE_SIZE).long().clamp_(max=TABLE_SIZE - 1)]
