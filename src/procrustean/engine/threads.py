"""How many CPU threads a run computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Networks whose layers are shorter than the hand-over between threads.
_ONE_THREAD = ("small", "small-2d")


def on_one_thread(net: str) -> bool:
    """Whether a network computes on one thread, however many there are."""
    return net in _ONE_THREAD


@contextmanager
def sane_threads(net: str) -> Iterator[None]:
    """One thread for networks that are faster with one, and numbers too small to matter taken for 0; undone outside.

    One thread is also faster beside other work, and gives the same numbers on machines with any number of cores.
    """
    threads, flushes = torch.get_num_threads(), _flushes_denormals()
    if on_one_thread(net):
        torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushes)


def _flushes_denormals() -> bool:
    return bool(torch.tensor(1e-40) * 1.0 == 0)  # torch has no way to ask
