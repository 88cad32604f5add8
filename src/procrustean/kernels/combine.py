"""Blend each row of a batch with another row, in one pass over the memory."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from . import device_code
from .launching import launch

_BLOCK = 4096


def covers(rows: Tensor) -> bool:
    """Whether the kernel can take these rows: single or half precision, each row one dense piece of memory."""
    dense = rows.is_contiguous() or (rows.dim() == 4 and rows.is_contiguous(memory_format=torch.channels_last))
    return dense and rows.numel() > 0 and rows.dtype in (torch.float32, torch.bfloat16, torch.float16)


def combine_rows(rows: Tensor, own: Tensor, other: Tensor, index: Tensor) -> Tensor:
    """own[n] * rows[n] + other[n] * rows[index[n]], in the layout of `rows`."""
    out = torch.empty_like(rows)
    size = rows[0].numel()
    grid = (len(rows), triton.cdiv(size, _BLOCK))
    own, other = own.contiguous(), other.contiguous()
    launch(device_code.combine, grid, rows, own, other, index, out, SIZE=size, BLOCK=_BLOCK, num_warps=4)
    return out
