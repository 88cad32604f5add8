"""What a recipe is: the numbers around a method. Those of a data set are in its file in `sets`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from procrustean.base.console import number_of
from procrustean.base.epochs import whole_epochs
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import short_name
from procrustean.data.augment.named_parts import JITTER, NAMES, parts_of

#: What `--recipe` takes beside the names: the data set's, the same if the paper has one, the method's own.
CHOICES = ("auto", "paper", "own")
#: A few new parameters in a vision transformer whose others stay as they are: low-rank changes of linear layers (Hu et
#: al. 2021); a factor and a summand for each channel behind every layer (Lian et al. 2022, SSF); or the biases that are
#: there (Ben Zaken et al. 2021).
Adapter = Literal["lora", "scale_shift", "bitfit"]
#: What learns of a network that starts from pretrained weights: all of it, the head alone, or the head and an adapter.
Tune = Literal["all", "head", Adapter]
#: Of the numbers of training, which has 32 bits for each.
LARGEST = 2.0**127


# With slots, msgspec gives a recipe that is read the defaults of what the file lacks.
@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything about training that is neither data nor method."""

    name: str  # of the recipe this one is, or was changed from
    net: str
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    schedule: Literal["cosine", "steps", "constant", "one_cycle"]  # the last by the step, the others by the epoch
    milestones: tuple[float, ...]  # shares of the epochs after which "steps" multiplies the rate by `decay`
    decay: float
    warmup_epochs: int  # linear, ending at `lr`
    augment: str  # one of `augment.named_parts.NAMES`, or `PARTS` with + between them
    crop: int | None  # side of what the network is shown while training; None: that of the image
    evaluation_crop: int | None  # side of the middle part that it is tested on; None: the whole image
    padding: int  # zero pixels added on each side before the crop
    flip: bool  # random horizontal flip
    colour_jitter: float  # largest relative change of brightness, contrast and saturation
    mean: tuple[float, ...] | None  # per channel, of pixels scaled to 0..1; None: measured on the training images
    std: tuple[float, ...] | None
    optimizer: Literal["sgd", "adamw"] = "sgd"
    backbone_rate: float = 1.0  # factor of the learning rate of all but the head
    crop_area: float = 0.08  # smallest share of an image that a random resized crop shows
    norm_momentum: float | None = None  # share of a batch in the statistics of batch normalisation; None: the network's

    def named(self, name: str, **changes: Any) -> Recipe:
        """Another recipe that differs from this one in some numbers."""
        return self.changed({"name": name, **changes})

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with some numbers replaced; another way to augment brings what it implies."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise ConfigError(f"a recipe has no {name!r}. {did_you_mean(name, known)}")
        return replace(self, **{**self._implied(changes.get("augment")), **changes}).checked()

    def _implied(self, augment: str | None) -> dict[str, Any]:
        """What another way to augment leaves no choice about."""
        if augment is None:
            return {}
        parts = parts_of(augment)
        implied: dict[str, Any] = {} if "pad_crop" in parts else {"padding": 0}
        if augment in NAMES and parts:  # whether these mirror images is said apart
            return implied
        if "pad_crop" in parts and self.crop is None:
            implied["padding"] = self.padding or STANDARD.padding
        return {**implied, "flip": "flip" in parts}

    def checked(self) -> Recipe:
        """Itself, or a ConfigError naming the number that cannot be."""
        schedules, parts = ("cosine", "steps", "constant", "one_cycle"), parts_of(self.augment)
        rules: dict[str, tuple[bool, str]] = {
            "epochs": (self.epochs >= 1, "at least 1"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "lr": (0 < self.lr <= LARGEST, f"above 0, and at most {LARGEST:.2g}"),
            "momentum": (0 <= self.momentum < 1, "from 0 to below 1"),
            "weight_decay": (0 <= self.weight_decay <= LARGEST, f"0 or more, and at most {LARGEST:.2g}"),
            "schedule": (self.schedule in schedules, "one of " + ", ".join(schedules)),
            "warmup_epochs": (self.warmup_epochs >= 0, "0 or more"),
            "crop": (self.crop is None or self.crop >= 1, "at least 1"),
            "evaluation_crop": (self.evaluation_crop is None or self.evaluation_crop >= 1, "at least 1"),
            "padding": (self.padding >= 0, "0 or more"),
            "colour_jitter": (0 <= self.colour_jitter <= 1, "from 0 to 1"),
            "optimizer": (self.optimizer in ("sgd", "adamw"), "sgd or adamw"),
            "backbone_rate": (0 < self.backbone_rate <= 1, "above 0, and at most 1"),
            "crop_area": (0 < self.crop_area <= 1, "above 0, and at most 1"),
            "norm_momentum": (self.norm_momentum is None or 0 < self.norm_momentum <= 1, "above 0, and at most 1"),
        }
        if "pad_crop" not in parts:
            rules["padding"] = (self.padding == 0, f"0 with augment {self.augment!r}")
        if "flip" not in parts:
            rules["flip"] = (not self.flip, f"False with augment {self.augment!r}")
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

    def text(self) -> str:
        """The most important numbers in a line."""
        falls = {
            "cosine": "cosine to 0",
            "constant": "constant",
            "one_cycle": "in one cycle",
            "steps": f"times {self.decay:g} after {' and '.join(f'{100 * m:.0f} %' for m in self.milestones)}",
        }[self.schedule]
        warm = f" after {self.warmup_epochs} of warm-up" if self.warmup_epochs else ""
        net, epochs = short_name(self.net), number_of(self.epochs, "epoch")
        adamw = "AdamW, " * (self.optimizer == "adamw")
        return (
            f"{net}, {epochs}, batch {self.batch_size}, {adamw}rate {self.lr:g} {falls}{warm}, "
            f"weight decay {self.weight_decay:g}, {self.augment_text()}"
        )

    def augment_text(self) -> str:
        """What is done to training images, in words: a name such as pad_crop_flip says only what may be done."""
        side = f" of {self.crop} pixels" if self.crop else ""
        padding = f" after padding by {self.padding}" if self.padding else ""
        parts, jitter = parts_of(self.augment), self.colour_jitter
        jitter = jitter or (JITTER if "colour" in parts else 0.0)
        done = {
            f"random crops{side}{padding}": "pad_crop" in parts and (side or padding),
            f"random resized crops{side}": "resized_crop" in parts,
            "random flips": self.flip and "flip" in parts,
            "vertical flips": "vertical_flip" in parts,
            "turns": "rotate" in parts,
            "AutoAugment": "autoaugment" in parts,
            "RandAugment": "randaugment" in parts,
            f"colours changed by up to {100 * jitter:g} %": jitter,
            "Cutout": "cutout" in parts,
            "erased rectangles": "erase" in parts,
        }
        return ", ".join(text for text, is_done in done.items() if is_done) or "images not augmented"

    def to_json(self) -> dict[str, Any]:
        """As JSON gives it back, with lists for tuples."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


#: What other recipes say their differences from: small images, SGD with momentum, a warm-up and a cosine.
STANDARD = Recipe(
    name="standard",
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
    augment="pad_crop_flip",
    crop=None,
    evaluation_crop=None,
    padding=4,
    flip=True,
    colour_jitter=0.0,
    mean=None,
    std=None,
)
#: Mean and standard deviation of ImageNet's colours.
IMAGENET_COLOURS: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


#: Share of a cycle in which the rate rises, and the factors of the rate that it begins and ends with.
RISE, FIRST, LAST = 0.2, 1 / 25, 4e-6


def lr_table(recipe: Recipe, epochs: int) -> list[float]:
    """The learning rate of every epoch: linear warm-up, then the schedule over the rest.

    Cosine falls to 0 over the epochs after the warm-up. Steps count their milestones over all epochs, as Cao
    et al. do: milestones (0.8, 0.9) of 200 epochs keep the full rate for epochs 1 to 160. One cycle, which changes with
    every step, has the rate of the middle of each epoch here.
    """
    warm = min(recipe.warmup_epochs, epochs - 1)
    rates = []
    for epoch in range(epochs):
        if recipe.schedule == "one_cycle":
            factor = _cycle((epoch + 0.5) / epochs)
        elif epoch < warm:
            factor = (epoch + 1) / warm
        elif recipe.schedule == "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * (epoch - warm) / (epochs - warm)))
        elif recipe.schedule == "steps":
            factor = recipe.decay ** sum(epoch >= whole_epochs(m, epochs) for m in recipe.milestones)
        else:
            factor = 1.0
        rates.append(recipe.lr * factor)
    return rates


def step_rates(recipe: Recipe, epochs: int, epoch: int, steps: int) -> list[float]:
    """The learning rate of every step of an epoch, counted from 0, with so many steps in each."""
    if recipe.schedule != "one_cycle":
        return [lr_table(recipe, epochs)[epoch]] * steps
    last = max(1, epochs * steps - 1)
    return [recipe.lr * _cycle((epoch * steps + step) / last) for step in range(steps)]


def _cycle(share: float) -> float:
    """The factor of the rate at a share of a cycle: half a cosine up and half a cosine down (Smith and Topin 2018)."""
    start, end, along = (FIRST, 1.0, share / RISE) if share < RISE else (1.0, LAST, (share - RISE) / (1 - RISE))
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * along))
