"""Pretrained networks that are on this machine already."""

from __future__ import annotations

from pathlib import Path

from procrustean.base.errors import ConfigError

#: In the order of preference. Nothing is downloaded.
CANDIDATES = ("torchvision:resnet18", "timm:resnet18.a1_in1k", "torchvision:resnet50", "timm:resnet50.a1_in1k")
#: Below this side, the first layers of networks for photographs leave nothing to look at.
SMALLEST_SIDE = 64


def found_pretrained(side: int, channels: int) -> str | None:
    """The first network whose weights are in a cache and that can take images of this size; None if there is none."""
    if side < SMALLEST_SIDE or channels != 3 or not _caches_hold_anything():
        return None
    from procrustean.nets.published import published

    for net in CANDIDATES:
        try:
            if published(net).found() is not None:
                return net
        except ConfigError:  # the library is not installed
            continue
    return None


def _caches_hold_anything() -> bool:
    """A look at the folders, since importing the libraries takes seconds."""
    import os

    import torch

    hub = Path(torch.hub.get_dir()) / "checkpoints"
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return any(hub.glob("resnet*")) or any(cache.glob("models--timm--resnet*"))
