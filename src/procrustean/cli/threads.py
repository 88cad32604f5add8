"""How many CPU threads a command uses. Only the program decides this, never the library."""

from __future__ import annotations

from ..recipes import Recipe


def use_sane_threads(recipe: Recipe) -> None:
    """One thread for networks whose layers are shorter than the hand-over between threads; PyTorch's choice otherwise.

    One thread is also faster beside other work, and gives the same numbers on machines with any number of cores.
    """
    import torch

    if recipe.net in ("small", "small_2d"):
        torch.set_num_threads(1)
    torch.set_flush_denormal(True)
