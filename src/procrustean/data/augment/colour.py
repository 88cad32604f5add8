"""Random brightness, contrast and saturation, and the hole of Cutout, for a whole batch at a time."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

#: The orders in which brightness (0), contrast (1) and saturation (2) may be changed.
ORDERS = tuple(permutations(range(3)))
#: Share of red, green and blue in the grey value (ITU-R 601-2).
GREY = (0.299, 0.587, 0.114)


def jittered(x: Tensor, factors: Tensor, order: Tensor, orders: Tensor) -> Tensor:
    """Images with other brightness, contrast and saturation, each change clipped to 0..255.

    Args:
        x: [B, channels, H, W], 0..255.
        factors: of brightness, contrast and saturation, [B, 3]; 1 changes nothing.
        order: which of `ORDERS` holds for each image, [B].
        orders: `ORDERS` as a tensor, [6, 3].
    """
    x = x.float()
    turns = orders[order]  # [B, 3]: which change comes first, second, third
    for turn in range(3):
        change = turns[:, turn]
        factor = factors.gather(1, change[:, None]).view(-1, 1, 1, 1)
        grey = _grey(x)
        level = torch.where((change == 1).view(-1, 1, 1, 1), grey.mean((2, 3), keepdim=True), grey)
        other = level * (change != 0).view(-1, 1, 1, 1)
        x = (factor * x + (1 - factor) * other).clamp(0, 255)
    return x


def holed(x: Tensor, centre: Tensor, side: int) -> Tensor:
    """Images with a black square around a pixel, cut off at the border (DeVries and Taylor 2017).

    Args:
        x: [B, channels, H, W], not yet normalised.
        centre: row and column of the square's centre, [B, 2].
        side: of the square, even.
    """
    half = side // 2
    row = torch.arange(x.shape[2], device=x.device) - centre[:, :1]
    column = torch.arange(x.shape[3], device=x.device) - centre[:, 1:]
    inside = ((row >= -half) & (row < half))[:, :, None] & ((column >= -half) & (column < half))[:, None, :]
    return x.masked_fill(inside[:, None], 0)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue)[:, None]
