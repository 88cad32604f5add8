"""What a run will cost: images to train on, weighted by how slow its network and method are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..config import RunConfig
from ..preparing import recipe_of
from .sizes import training_images

Device = Literal["cuda", "cpu"]

#: Time per image relative to ResNet-32 on 32 x 32 images, on a GPU: by multiplications, those of wide layers being
#: cheaper. Rough; the measured speed corrects the sum.
NETS = {
    "small": 0.05,
    "resnet20": 0.6,
    "resnet32": 1.0,
    "resnet44": 1.4,
    "resnet56": 1.7,
    "resnet32-2d": 1.0,
    "densenet121-s1": 12.0,
    "resnet18-s1": 10.0,
    "resnet12": 20.0,
    "resnet10": 8.0,
    "resnet50": 30.0,
    "resnext50": 35.0,
}
#: Time per image relative to ERM where it is much more: measured on an H200, estimated for CPUs.
METHODS = {
    "cuda": {"bbn": 2.1, "m2m": 3.6, "meta_weight": 7.9, "domain_adaptation": 2.4, "oltr": 1.1},
    "cpu": {"bbn": 2.0, "m2m": 3.0, "meta_weight": 4.0, "domain_adaptation": 1.6, "oltr": 1.1},
}
#: The same of float32, which has no kernels of its own; on CPUs where bf16 is native.
FLOAT32 = {"cuda": 2.7, "cpu": 1.9}
#: Images of ResNet-32 per second of a whole fleet before anything is measured: on an H200 (docs/performance.md), and
#: on two CPU cores.
FIRST_GUESS: dict[Device, float] = {"cuda": 140_000.0, "cpu": 500.0}


def trained_images(config: RunConfig) -> int:
    """Images shown in the whole run."""
    return recipe_of(config).epochs * training_images(config)


def predicted_cost(config: RunConfig, device: Device = "cuda") -> float:
    """Images that ERM with ResNet-32 would train in the same time on that kind of device."""
    return trained_images(config) * NETS.get(recipe_of(config).net, 1.0) * relative_to_erm(config, device)


def relative_to_erm(config: RunConfig, device: Device = "cuda") -> float:
    """Time per image relative to ERM on the same network in the device's usual precision."""
    return METHODS[device].get(config.method, 1.0) * (FLOAT32[device] if config.precision == "fp32" else 1.0)


def predicted_seconds(costs: Sequence[float], rate: float, width: int) -> float:
    """Seconds for runs of these costs side by side; a single long run cannot be shared out.

    Args:
        costs: of the runs that remain.
        rate: cost per second of the whole fleet.
        width: runs at a time.
    """
    if not costs:
        return 0.0
    # Alone, a run reaches about half of what a fleet does.
    return max(sum(costs) / rate, max(costs) / (rate if width == 1 else 0.6 * rate))
