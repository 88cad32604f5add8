"""How fast this machine trains a network, measured in a moment."""

from __future__ import annotations

import time

import torch
from torch.nn import functional as F

from procrustean.engine.device import place, sane_threads
from procrustean.engine.step import precision
from procrustean.nets.build import build_net

SECONDS = 1.5
#: A training takes this many times as long as its steps alone: images are tested and weights saved as well.
BESIDE_STEPS = 1.2


def measured_speed(net: str, channels: int, size: int, batch_size: int, device: str = "auto") -> float:
    """Images per second of plain training steps on random images, after one to warm up.

    Args:
        net: network.
        channels, size: of the images.
        batch_size: images per step.
        device: "auto", "cpu" or "cuda".
    """
    placement = place(device, "auto", small=net == "small")
    where, low = placement.device, placement.low_precision
    model = build_net(net, channels=channels, classes=10, seed=0).to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch_size, channels, size, size, generator=generator).to(where)
    y = torch.randint(10, (batch_size,), generator=generator).to(where)

    def step() -> None:
        with precision(where, low):
            scores = model(x)
        F.cross_entropy(scores.float(), y).backward()
        if where.type == "cuda":
            torch.cuda.synchronize()

    with sane_threads(net):
        step()
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < SECONDS:
            step()
            steps += 1
        return steps * batch_size / (time.monotonic() - began)
