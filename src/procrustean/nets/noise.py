"""Layers that drop at random: dropout, DropBlock, whole residual branches.

Their random numbers are a hash of a key, the number of the step and the place in the tensor. Nothing is drawn from
torch's generators, so a run can be captured, resumed and repeated, with the same numbers on CPU and GPU.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.base.random_numbers import scrambled


class Noise(nn.Module):
    """Changes its input in training only; `uniforms` are new for every call."""

    key: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        # As float32, like the statistics of batch normalisation: a step that is undone takes them back with it.
        self.register_buffer("key", torch.zeros(()))
        self.register_buffer("calls", torch.zeros(()))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """A key from torch's generator, and no calls so far."""
        self.key.copy_(torch.randint(2**24, ()))
        self.calls.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        with torch.no_grad():
            self.calls.add_(1)
        return self.dropped(x)

    def dropped(self, x: Tensor) -> Tensor:
        """What training makes of the input."""
        raise TypeError(f"{type(self).__name__} does not say what it drops: override dropped")

    @torch.no_grad()
    def uniforms(self, *shape: int) -> Tensor:
        """Numbers in [0, 1), float32."""
        seed = scrambled(self.calls.long() + scrambled(self.key.long()))
        places = torch.arange(torch.Size(shape).numel(), device=self.key.device)
        bits = scrambled(places * 0x9E3779B1 ^ seed)
        return ((bits >> 8) * 2.0**-24).view(shape)


class Dropout(Noise):
    """Sets values to 0 with probability `rate` and scales the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def dropped(self, x: Tensor) -> Tensor:
        kept = self.uniforms(*x.shape) >= self.rate
        return x * kept / (1 - self.rate)


class DropPath(Noise):
    """Sets whole samples to 0 with probability `rate`; the others are scaled up if `scaled`."""

    def __init__(self, rate: float, *, scaled: bool = True) -> None:
        super().__init__()
        self.rate, self.scaled = rate, scaled

    def dropped(self, x: Tensor) -> Tensor:
        kept = self.uniforms(len(x), *[1] * (x.dim() - 1)) >= self.rate
        return x * kept / (1 - self.rate if self.scaled else 1)


class DropBlock(Noise):
    """Sets squares of a feature map to 0 (Ghiasi et al. 2018), more of them as training goes on, and scales the rest.

    Args:
        rate: share of the map that is dropped after `ramp` steps; before, it grows linearly from 0.
        size: side of the squares; at most that of the map.
        ramp: steps.
    """

    def __init__(self, rate: float, *, size: int = 5, ramp: int = 40_000) -> None:
        super().__init__()
        self.rate, self.size, self.ramp = rate, size, ramp

    def dropped(self, x: Tensor) -> Tensor:
        count, channels, height, width = x.shape
        size = min(self.size, height, width)
        rows, columns = height - size + 1, width - size + 1  # where the corner of a square may lie
        share = self.rate * (self.calls / self.ramp).clamp(max=1)
        corners = self.uniforms(count, channels, rows, columns) < share / size**2 * (height * width) / (rows * columns)
        covered = F.max_pool2d(F.pad(corners.to(x.dtype), [size - 1] * 4), size, stride=1)
        kept = 1 - covered
        scale = kept.numel() / kept.sum(dtype=torch.float32).clamp_min(1)
        return x * kept * scale.to(x.dtype)
