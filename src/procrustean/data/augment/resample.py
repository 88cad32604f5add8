"""Parts of images brought to one size, a whole batch at a time, with the antialiased bilinear filter of Pillow.

A resampled line of pixels is a weighted sum of the old ones, so a part is resampled by two matrix products, one along
the columns and one along the rows. All shapes are fixed, whatever the parts: the step can be captured.
"""

from __future__ import annotations

import torch
from torch import Tensor


def filter_weights(start: Tensor, length: Tensor, source: int, target: int) -> Tensor:
    """How much each old pixel counts for each new one, [B, target, source]; the rows add up to 1.

    Args:
        start: first pixel of the part along this axis, [B].
        length: its number of pixels, [B].
        source: pixels of the whole image along this axis.
        target: pixels wanted.
    """
    device = start.device
    start, length = start.float()[:, None], length.float()[:, None]
    step = length / target
    centre = start + (torch.arange(target, device=device) + 0.5) * step  # [B, target]
    # Beyond one old pixel per new one the filter widens, so that every old pixel counts.
    reach = step.clamp(min=1.0)[..., None]
    pixel = torch.arange(source, device=device)
    distance = (pixel + 0.5 - centre[..., None]).abs() / reach
    inside = (pixel >= start[..., None]) & (pixel < (start + length)[..., None])
    weights = (1 - distance).clamp(min=0.0) * inside
    return weights / weights.sum(-1, keepdim=True)


def enlarging(stored: tuple[int, int], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """What brings whole images of one height and width to another: rows @ image @ columns."""
    start = torch.zeros(1)
    rows, columns = (
        filter_weights(start, torch.tensor([old]), old, new)[0] for old, new in zip(stored, size, strict=True)
    )
    return rows, columns.T.contiguous()


def resampled(pixels: Tensor, box: Tensor, size: tuple[int, int], flip: Tensor | None = None) -> Tensor:
    """The parts `box` of images at `size`, float32 [B, channels, height, width].

    Args:
        pixels: uint8 [B, H, W, channels].
        box: top, left, height and width of each part, [B, 4].
        size: height and width wanted.
        flip: which are mirrored, bool [B]; None for none.
    """
    # In bf16, which autocast would choose, a pixel's weight has a rounding error of a whole grey level.
    with torch.autocast(pixels.device.type, enabled=False):
        rows = filter_weights(box[:, 0], box[:, 2], pixels.shape[1], size[0])
        columns = filter_weights(box[:, 1], box[:, 3], pixels.shape[2], size[1])
        if flip is not None:
            columns = torch.where(flip[:, None, None], columns.flip(1), columns)
        planes = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        batch, channels, height, width = planes.shape
        lines = torch.bmm(planes.view(batch, channels * height, width), columns.transpose(1, 2))
        return rows[:, None] @ lines.view(batch, channels, height, size[1])
