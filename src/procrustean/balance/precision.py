"""The precision of sums, norms and steps that the low ones would spoil."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(values: Tensor) -> Tensor:
    """In float32, or float64 if they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
