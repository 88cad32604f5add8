"""What a run will cost: images to train on, weighted by how slow its network and method are."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import (
    recipe_of,
)
from procrustean.runs.step_cost import Device, relative_to_erm
from procrustean.runs.training_sizes import training_images

#: Time per image relative to ResNet-32 on 32 x 32 images, on a GPU. That of DenseNet-121 is measured: in a fleet of
#: twelve on an H200 two of it, 3,000 images a second each, took as much as 100,000 images a second of ResNet-32. The
#: others are by multiplications, those of wide layers being cheaper. Rough; the measured speed corrects the sum.
NETS = {
    "small": 0.05,
    "resnet20": 0.6,
    "resnet32": 1.0,
    "resnet44": 1.4,
    "resnet56": 1.7,
    "resnet32-2d": 1.0,
    "densenet121-s1": 17.0,
    "resnet18-s1": 10.0,
    "resnet12": 20.0,
    "resnet10": 8.0,
    "resnet50": 30.0,
    "resnext50": 35.0,
}
#: The same on CPUs where it differs by more than half, measured on one core: a network that keeps no GPU busy is not
#: as cheap there, nor wide layers as dear. ResNet-20 (0.54), ResNet-56 (1.7) and DenseNet-121 (12) are near the above.
NETS_ON_CPUS = {"small": 0.09, "resnet18-s1": 5.0}
#: Images of ResNet-32 per second of a whole fleet before anything is measured: on an H200 (docs/performance.md), and
#: on two CPU cores.
FIRST_GUESS: dict[Device, float] = {"cuda": 140_000.0, "cpu": 500.0}
#: Images of an epoch where only loading them would tell.
GUESSED_IMAGES = 10_000


def trained_images(config: RunSpec) -> int | None:
    """Images shown in the whole run; None where only loading them would tell how many there are."""
    images = training_images(config)
    return None if images is None else recipe_of(config).epochs * images


def predicted_cost(config: RunSpec, device: Device = "cuda") -> float:
    """Images that ERM with ResNet-32 would train in the same time on that kind of device."""
    recipe, images = recipe_of(config), training_images(config)
    shown = recipe.epochs * (GUESSED_IMAGES if images is None else images)
    nets = {**NETS, **NETS_ON_CPUS} if device == "cpu" else NETS
    return shown * nets.get(recipe.net, 1.0) * relative_to_erm(config, device)


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
