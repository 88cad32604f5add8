"""What a run will cost: images to train on, weighted by how slow its network and method are."""

from __future__ import annotations

from collections.abc import Sequence

from .config import RunConfig
from .preparing import recipe_of
from .step_cost import Device, relative_to_erm
from .training_sizes import training_images

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
#: Images of ResNet-32 per second of a whole fleet before anything is measured: on an H200 (docs/performance.md), and
#: on two CPU cores.
FIRST_GUESS: dict[Device, float] = {"cuda": 140_000.0, "cpu": 500.0}


#: Images of an epoch where only loading them would tell.
GUESSED_IMAGES = 10_000


def trained_images(config: RunConfig) -> int | None:
    """Images shown in the whole run; None where only loading them would tell how many there are."""
    images = training_images(config)
    return None if images is None else recipe_of(config).epochs * images


def predicted_cost(config: RunConfig, device: Device = "cuda") -> float:
    """Images that ERM with ResNet-32 would train in the same time on that kind of device."""
    recipe, images = recipe_of(config), training_images(config)
    shown = recipe.epochs * (GUESSED_IMAGES if images is None else images)
    return shown * NETS.get(recipe.net, 1.0) * relative_to_erm(config, device)


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
