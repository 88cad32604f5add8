"""Blend each row of a batch with another row, in one pass over the memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from procrustean.balance.triton_launch import launch

_BLOCK = 4096


@triton.jit
def _combine(
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
    launch(_combine, grid, rows, own, other, index, out, SIZE=size, BLOCK=_BLOCK, num_warps=4)
    return out
