"""Network, image side, batch and epochs for a number of images on a machine, where nothing is tried."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from procrustean.data.recipes import PHOTOGRAPHS
from procrustean.runs.cost import Machine

#: A network from scratch for images of a user, the longest side that it is shown, and sides for which images are made
#: smaller where time is short.
SCRATCH, SCRATCH_SIDE, SMALLER_SIDES = "convnet", 64, (48, 32)
#: It is trained at least so long.
SCRATCH_EPOCHS, SCRATCH_STEPS, BATCH = 30, 600, 32
#: For sides that it, which halves them three times, would make nothing of.
SMALLEST_SIDE, FOR_SMALLER = 8, "small"

#: Images shown to a network that was named, if there is time.
SHOWN = {"cpu": 120_000, "cuda": 4_000_000}
FEWEST_EPOCHS, MOST_EPOCHS = 30, 200
#: A network that starts from pretrained weights needs far fewer, at a lower rate.
PRETRAINED_EPOCHS, PRETRAINED_RATE = 12, 1e-3
EVALUATIONS = 20
#: Steps of an epoch below which a batch is too large for so few images, and the batch below which none is made smaller.
FEWEST_STEPS, SMALLEST_BATCH = 3, 4


@dataclass(frozen=True)
class Settings:
    """How to train, as far as it is neither the data nor the method."""

    net: str
    size: int  # side of the images
    epochs: int
    batch_size: int
    seconds: float  # by the reckoning of `cost`
    recipe: str = "auto"
    lr: float | None = None  # None for the recipe's


def scratch_length(images: int, side: int) -> tuple[int, int]:
    """Epochs and batch of the network from scratch."""
    return epochs_for(images, BATCH, SCRATCH_EPOCHS, SCRATCH_STEPS), _none_alone(BATCH, images, side)


def epochs_for(images: int, batch: int, fewest: int, steps: int) -> int:
    """The epochs that make at least so many steps."""
    return max(fewest, math.ceil(steps * batch / images))


def from_scratch(images: int, side: int, channels: int, machine: Machine, *, resizable: bool) -> Settings:
    """The settings where the network is open.

    Args:
        images: trained on.
        side: of the images as they are, in pixels; they are made smaller, never larger.
        channels: of the images.
        machine: where they are trained on; images become smaller where its time is short.
        resizable: whether the side is still open.
    """
    if side < SMALLEST_SIDE:
        return settings_of(FOR_SMALLER, side, images, channels, machine)
    epochs, batch = scratch_length(images, side)
    sides = [min(side, SCRATCH_SIDE), *(s for s in SMALLER_SIDES if s < side)] if resizable else [side]
    seconds = [epochs * images / machine.images_per_second(SCRATCH, channels, each) for each in sides]
    fitting = next((place for place, needed in enumerate(seconds) if needed <= machine.budget), -1)
    return Settings(SCRATCH, sides[fitting], epochs, batch, seconds[fitting], recipe=PHOTOGRAPHS)


def settings_of(
    net: str, size: int, images: int, channels: int, machine: Machine, *, pretrained: bool = False
) -> Settings:
    """A network that was named, with the epochs that the budget allows, and never fewer than it needs."""
    speed = machine.images_per_second(net, channels, size)
    fewest = PRETRAINED_EPOCHS if pretrained else FEWEST_EPOCHS
    wanted = PRETRAINED_EPOCHS if pretrained else min(MOST_EPOCHS, max(FEWEST_EPOCHS, SHOWN[machine.device] // images))
    epochs = max(fewest, min(wanted, int(machine.budget * speed / images)))
    batch = batch_for(images, size, machine)
    rate = PRETRAINED_RATE if pretrained else rate_for(batch)
    return Settings(net, size, epochs, batch, epochs * images / speed, lr=rate)


def batch_for(images: int, side: int, machine: Machine) -> int:
    """Small enough for several dozen steps an epoch, or of very few images for three; large enough for the device."""
    size = 64 if images >= 2000 else 32 if images >= 300 else 16
    if machine.device == "cuda" and images >= 10_000:
        size = 128
    while size > SMALLEST_BATCH and images < FEWEST_STEPS * size:
        size //= 2
    return _none_alone(size, images, side)


def _none_alone(batch: int, images: int, side: int) -> int:
    """A last batch of one image is avoided where its last feature map may be a single pixel, which batch normalisation
    cannot normalise."""
    while side <= 32 and images > 1 and images % batch == 1:
        batch += 1
    return batch


def rate_for(batch: int) -> float:
    """The learning rate of the recipes "digits" and "images" for their batches, 32 and 64, in proportion beyond.

    >>> [rate_for(batch) for batch in (16, 32, 64, 128)]
    [0.025, 0.05, 0.05, 0.1]
    """
    return round(0.05 * min(1.0, batch / 32) * max(1.0, batch / 64), 4)


def with_batch(settings: Settings, batch: int) -> Settings:
    """The settings with another batch, and the rate for it."""
    lr = settings.lr if settings.lr in (None, PRETRAINED_RATE) else rate_for(batch)
    return replace(settings, batch_size=batch, lr=lr)
