"""Network, image size, batch and epochs for a number of images on a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from procrustean.runs.cost import Machine

#: (network, image side or None for that of the images), the best first; the first that the budget allows is taken.
_CPU_LARGE = (("resnet20", 32), ("small", 32))
_CPU_SMALL = (("resnet20", None), ("small", None))
_TINY = (("small", None),)
_GPU_LARGE = (("resnet18", 128), ("resnet18-s2", 64), ("resnet32", 32))
_GPU_MEDIUM = (("resnet18-s2", 64), ("resnet32", 32))
_GPU_SMALL = (("resnet32", None),)

#: Images shown in a training from scratch, if there is time: more has not paid on sets of a few thousand images.
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
    lr: float
    seconds: float  # by the reckoning of `cost`
    pretrained: bool = False


def at_least_fewest(chosen: Settings) -> Settings:
    """The settings with the epochs that a training needs, whatever they cost: who names a network has accepted that."""
    fewest = PRETRAINED_EPOCHS if chosen.pretrained else FEWEST_EPOCHS
    if chosen.epochs >= fewest:
        return chosen
    return replace(chosen, epochs=fewest, seconds=chosen.seconds * fewest / chosen.epochs)


def choose_settings(images: int, side: int, channels: int, machine: Machine) -> Settings:
    """The largest network that the machine trains long enough within its budget; else the smallest, as long as it can.

    Args:
        images: trained on.
        side: of the images as they are, in pixels; they are made smaller, never larger.
        channels: of the images.
        machine: where they are trained on.
    """
    ladder = [
        settings_of(net, min(longest or side, side), images, channels, machine)
        for net, longest in _ladder(side, machine)
    ]
    return next((step for step in ladder if step.epochs >= FEWEST_EPOCHS), ladder[-1])


def settings_of(
    net: str, size: int, images: int, channels: int, machine: Machine, *, pretrained: bool = False
) -> Settings:
    """A network at a size with the epochs that the budget allows."""
    speed = machine.images_per_second(net, channels, size)
    affordable = int(machine.budget * speed / images)
    wanted = PRETRAINED_EPOCHS if pretrained else min(MOST_EPOCHS, max(FEWEST_EPOCHS, SHOWN[machine.device] // images))
    epochs = max(1, min(wanted, affordable))
    batch = batch_for(images, size, machine)
    rate = PRETRAINED_RATE if pretrained else rate_for(batch)
    return Settings(net, size, epochs, batch, rate, epochs * images / speed, pretrained)


def batch_for(images: int, side: int, machine: Machine) -> int:
    """Small enough for several dozen steps an epoch, or of very few images for three; large enough for the device.

    A last batch of one image is avoided where its last feature map may be a single pixel, which batch normalisation
    cannot normalise.
    """
    size = 64 if images >= 2000 else 32 if images >= 300 else 16
    if machine.device == "cuda" and images >= 10_000:
        size = 128
    while size > SMALLEST_BATCH and images < FEWEST_STEPS * size:
        size //= 2
    while side <= 32 and images > 1 and images % size == 1:
        size += 1
    return size


def rate_for(batch: int) -> float:
    """The learning rate of the recipes "digits" and "images" for their batches, 32 and 64, in proportion beyond.

    >>> [rate_for(batch) for batch in (16, 32, 64, 128)]
    [0.025, 0.05, 0.05, 0.1]
    """
    return round(0.05 * min(1.0, batch / 32) * max(1.0, batch / 64), 4)


def _ladder(side: int, machine: Machine) -> tuple[tuple[str, int | None], ...]:
    if side <= 12:
        return _TINY
    if machine.device == "cpu":
        return _CPU_LARGE if side >= 48 else _CPU_SMALL
    return _GPU_LARGE if side >= 112 else _GPU_MEDIUM if side >= 48 else _GPU_SMALL
