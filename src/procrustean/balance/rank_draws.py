"""Random numbers of each process where all are seeded alike, as launchers and `seed_everything` do."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from procrustean.base.device_noise import scrambled


def distributed_rank() -> int:
    """The rank of this process; 0 where there is but one."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def draws_of_rank(rank: int, partner: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Partners and uniforms of a rank above 0, made of those that all ranks have drawn.

    Not drawn from a generator of its own: the global one is what recomputation restores and CUDA graphs capture, and it
    goes on alike on all ranks. Both numbers are used, because compiled code leaves out draws that nobody uses.
    """
    own = scrambled((u * 2**24).long() + rank * 0x9E3779B1)
    order = scrambled(own + (partner + 1) * 0x85EBCA77)
    return order.argsort(), (own >> 8) * 2.0**-24
