"""Training recipes: the numbers around a method, by data set; chosen by `--recipe`, changed by flags."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from .errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Recipe:
    """Everything about training that is neither data nor method."""

    net: str
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    schedule: Literal["cosine", "steps", "constant"]
    milestones: tuple[float, ...]  # shares of the epochs after which "steps" multiplies the rate by `decay`
    decay: float
    warmup_epochs: int  # linear, ending at `lr`
    padding: int  # random crop: zero pixels added on each side, 0 for none
    flip: bool  # random horizontal flip
    mean: tuple[float, ...] | None  # per channel, of pixels scaled to 0..1; None: measured on the training images
    std: tuple[float, ...] | None
    augment: str = "pad_crop_flip"  # one of procrustean.augment.NAMES
    crop: int | None = None  # side of what the network is shown while training; None: that of the image
    evaluation_crop: int | None = None  # side of the middle part that it is tested on; None: the whole image
    colour_jitter: float = 0.0  # largest relative change of brightness, contrast and saturation

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with some numbers replaced."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise ConfigError(f"a recipe has no {name!r}. {did_you_mean(name, known)}")
        return replace(self, **changes).checked()

    def checked(self) -> Recipe:
        """Itself, or a ConfigError naming the number that cannot be."""
        from .augment import NAMES

        schedules = ("cosine", "steps", "constant")
        rules: dict[str, tuple[bool, str]] = {
            "epochs": (self.epochs >= 1, "at least 1"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "lr": (math.isfinite(self.lr) and self.lr > 0, "above 0"),
            "momentum": (0 <= self.momentum < 1, "from 0 to below 1"),
            "weight_decay": (math.isfinite(self.weight_decay) and self.weight_decay >= 0, "0 or more"),
            "schedule": (self.schedule in schedules, "one of " + ", ".join(schedules)),
            "warmup_epochs": (self.warmup_epochs >= 0, "0 or more"),
            "padding": (self.padding >= 0, "0 or more"),
            "augment": (self.augment in NAMES, "one of " + ", ".join(NAMES)),
            "crop": (self.crop is None or self.crop >= 1, "at least 1"),
            "evaluation_crop": (self.evaluation_crop is None or self.evaluation_crop >= 1, "at least 1"),
            "colour_jitter": (0 <= self.colour_jitter <= 1, "from 0 to 1"),
        }
        for name, (fine, wanted) in rules.items():
            if not fine:
                raise ConfigError(f"{name} = {getattr(self, name)!r} received; it has to be {wanted}")
        return self

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation per channel, once they are known."""
        if self.mean is None or self.std is None:
            raise ConfigError("the recipe leaves mean and std to the data, and they have not been measured yet")
        return self.mean, self.std

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def lr_table(recipe: Recipe, epochs: int) -> list[float]:
    """The learning rate of every epoch: linear warm-up, then the schedule over the rest.

    Cosine falls to 0 over the epochs after the warm-up. Steps count their milestones over all epochs, as Cao
    et al. do: milestones (0.8, 0.9) of 200 epochs keep the full rate for epochs 1 to 160.
    """
    warm = min(recipe.warmup_epochs, epochs - 1)
    rates = []
    for epoch in range(epochs):
        if epoch < warm:
            factor = (epoch + 1) / warm
        elif recipe.schedule == "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * (epoch - warm) / (epochs - warm)))
        elif recipe.schedule == "steps":
            # int() of the product, with a hair's breadth added: 0.7 * 90 must be 63, not 62.
            factor = recipe.decay ** sum(epoch >= int(m * epochs + 1e-9) for m in recipe.milestones)
        else:
            factor = 1.0
        rates.append(recipe.lr * factor)
    return rates


def ldam_schedule() -> dict[str, Any]:
    """The schedule Cao et al. (2019) published LDAM with and re-ran ERM, focal and class-balanced with."""
    return {"epochs": 200, "schedule": "steps", "milestones": (0.8, 0.9), "decay": 0.01}


def label_mixing_schedule(source: str) -> dict[str, Any]:
    """The schedule Cheng and Lin published MAMix with and re-ran Remix with: longer where there are more classes."""
    if source in ("cifar100", "tiny-imagenet"):
        return {"epochs": 300, "schedule": "steps", "milestones": (150 / 300, 250 / 300), "decay": 0.1}
    return ldam_schedule()


#: Sec. 5.1, supplement: ResNet-32, SGD, 5 warm-up epochs, cosine, crop, flip; 200 epochs but for MFW's 300.
_CIFAR = Recipe(
    net="resnet32",
    epochs=200,
    batch_size=128,
    lr=0.1,
    momentum=0.9,
    nesterov=False,
    weight_decay=2e-4,
    schedule="cosine",
    milestones=(),
    decay=0.1,
    warmup_epochs=5,
    padding=4,
    flip=True,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)

#: 8 x 8 digits on a CPU: small batches, since images are few; no flip: a mirrored digit is another sign.
_DIGITS = replace(
    _CIFAR,
    net="small",
    epochs=60,
    batch_size=32,
    lr=0.05,
    weight_decay=5e-4,
    padding=1,
    flip=False,
    mean=None,
    std=None,
)

#: Images of a user, about which nothing is known.
_IMAGES = replace(_CIFAR, net="resnet20", epochs=100, batch_size=64, lr=0.05, weight_decay=5e-4, mean=None, std=None)


def recipe_for(source: str) -> Recipe:
    """The recipe of a data set: the paper's where the paper has one."""
    known = {"cifar10": _CIFAR, "cifar100": _CIFAR, "digits": _DIGITS}
    return known.get(source.removesuffix("-tuning"), _IMAGES)
