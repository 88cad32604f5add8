"""An augmentation as plain settings, and the random numbers it needs, drawn ahead for a whole epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.boxes import resized_crop_boxes

Arrays = dict[str, npt.NDArray[Any]]

#: What a recipe's `augment` may be. `padding`, `flip`, `crop` and `colour_jitter` are fields of the recipe too.
NAMES = {
    "pad_crop_flip": "black pixels added on each side, a random window of it, flipped or not",
    "random_resized_crop": "a random part of 8 to 100 % of the area, brought to size, flipped or not",
    "strong": "pad_crop_flip, then AutoAugment's policy for CIFAR, then a black hole of 16 x 16 (Cutout)",
    "flip": "the middle of the image, flipped or not",
    "none": "the middle of the image",
}
CUTOUT_SIDE = 16


@dataclass(frozen=True)
class Augmentation:
    """What is done to each image."""

    stored: tuple[int, int]  # height and width of the images as they are kept
    size: tuple[int, int]  # height and width of what the network sees in training
    tested: tuple[int, int]  # height and width of the middle, which is what it is tested on
    padding: int = 0  # black pixels added on each side before a window is cut out
    window: bool = False  # cut a random window out of the padded image
    resized: bool = False  # bring a random part of the image to `size`
    flip: bool = False  # mirror every other image
    jitter: float = 0.0  # how far brightness, contrast and saturation may go from 1
    cutout: int = 0  # side of the black hole
    policy: bool = False  # AutoAugment's policy for CIFAR, image by image

    @property
    def on_host(self) -> bool:
        """Whether crop and flip are done image by image on the host, because something there comes after them."""
        return self.policy

    @property
    def needs_padding(self) -> int:
        """Black pixels around the images that the device is handed."""
        return 0 if self.on_host else self.padding

    @property
    def handed(self) -> tuple[int, int]:
        """Height and width, without padding, of the images that the device is handed."""
        return self.size if self.on_host else self.stored

    def draw(self, count: int, stream: Callable[[str], Stream]) -> Arrays:
        """The random numbers for `count` images; `stream` gives the stream of a purpose."""
        numbers: Arrays = {}
        room = [side + 2 * self.padding - seen for side, seen in zip(self.stored, self.size, strict=True)]
        if self.window and any(room):
            crop = stream("crop")
            numbers["top"], numbers["left"] = (crop.integers(free + 1, count) for free in room)
        if self.resized:
            numbers["box"] = resized_crop_boxes(*self.stored, count, stream("crop"))
        if self.flip:
            numbers["flip"] = stream("flip").uniforms(count) < 0.5
        if self.jitter:
            spread = np.float32(self.jitter)
            numbers["colour"] = 1 - spread + 2 * spread * stream("colour").uniforms(count, 3)
            numbers["colour_order"] = stream("colour_order").integers(6, count)
        if self.policy:
            from procrustean.data.augment.autoaugment import draw_choices

            numbers["policy"] = draw_choices(count, stream("policy"))
        if self.cutout:
            hole = stream("cutout")
            numbers["hole"] = np.stack([hole.integers(side, count) for side in self.size], axis=1)
        return numbers


def is_smaller(stored: tuple[int, int], seen: tuple[int, int]) -> bool:
    """Whether images have to be enlarged before so much of them can be seen."""
    return stored[0] < seen[0] or stored[1] < seen[1]


def middle_of(stored: tuple[int, int], seen: tuple[int, int]) -> tuple[int, int]:
    """Top and left of the middle part, as torchvision's CenterCrop has them."""
    return round((stored[0] - seen[0]) / 2), round((stored[1] - seen[1]) / 2)


def make_augmentation(
    name: str,
    *,
    stored: tuple[int, int],
    channels: int,
    crop: int | None = None,
    evaluation_crop: int | None = None,
    padding: int = 0,
    flip: bool = True,
    jitter: float = 0.0,
) -> Augmentation:
    """The augmentation a recipe names, for images of a given size.

    Args:
        name: one of `NAMES`.
        stored: height and width of the images as they are kept.
        channels: of the images, 1 or 3.
        crop: side of what the network sees in training; None for that of the image.
        evaluation_crop: side of the middle that it is tested on; None for the whole image.
        padding: black pixels on each side, for "pad_crop_flip" and "strong".
        flip: whether images are mirrored, where the name says that they may be.
        jitter: brightness, contrast and saturation are multiplied by numbers from 1 - jitter to 1 + jitter.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no augmentation {name!r}. {did_you_mean(name, NAMES)}")
    if not 0 <= jitter <= 1:
        raise ConfigError(f"jitter = {jitter!r} received; it has to be from 0 (none) to 1")
    size = stored if crop is None else (crop, crop)
    window = name in ("pad_crop_flip", "strong")
    padding = padding if window else 0
    if window and any(side < seen for side, seen in zip(stored, size, strict=True)):
        raise ConfigError(
            f"augment {name!r} cuts windows of {size[1]} x {size[0]} pixels, but the images are {stored[1]} x "
            f"{stored[0]}; prepare them larger (procrustean data prepare --size), or use 'random_resized_crop'"
        )
    if name == "strong" and channels != 3:
        raise ConfigError(f"augment 'strong' is for colour images, got {channels} channel(s); use 'pad_crop_flip'")
    return Augmentation(
        stored=stored,
        size=size,
        tested=stored if evaluation_crop is None else (evaluation_crop, evaluation_crop),
        padding=padding,
        window=window,
        resized=name == "random_resized_crop",
        flip=flip and name != "none",
        jitter=jitter,
        cutout=CUTOUT_SIDE if name == "strong" else 0,
        policy=name == "strong",
    )
