"""An augmentation as plain settings, and the random numbers it needs, drawn ahead for a whole epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.named_parts import JITTER, NAMES, parts_of

Arrays = dict[str, npt.NDArray[Any]]

CUTOUT_SIDE = 16
#: Largest angle of a turn, in degrees.
TURN = 15.0
#: Strength of RandAugment's operations, 0 to 1, and how many follow one another.
STRENGTH, IN_A_ROW = 0.3, 2
#: Share of the area that is erased.
ERASED = (0.02, 0.33)
#: Width over height of a random resized crop (Szegedy et al. 2015; the draw of torchvision's transform).
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10


#: AutoAugment's policy for CIFAR (Cubuk et al. 2019, table of the appendix): name, probability and strength of the two
#: operations of each of 25 pairs, one of which is chosen for an image. Strengths count from 0 to 9 along the range of
#: the operation; the direction of those that have one is drawn.
POLICY = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
    (("color", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)
#: The operations that RandAugment (Cubuk et al. 2020) chooses from.
RANDAUGMENT = (
    "autocontrast", "equalize", "rotate", "solarize", "color", "posterize", "contrast", "brightness", "sharpness",
    "shear_x", "shear_y", "translate_x", "translate_y",
)  # fmt: skip
Choices = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Augmentation:
    """What is done to each image."""

    stored: tuple[int, int]  # height and width of the images as they are kept
    size: tuple[int, int]  # height and width of what the network sees in training
    tested: tuple[int, int]  # height and width of the middle, which is what it is tested on
    padding: int = 0  # black pixels added on each side before a window is cut out
    window: bool = False  # cut a random window out of the padded image
    resized: float = 0.0  # bring a random part of the image, of at least this share of its area, to `size`
    flip: bool = False  # mirror every other image
    vertical_flip: bool = False  # put every other image upside down
    rotate: bool = False  # turn by a random angle
    jitter: float = 0.0  # how far brightness, contrast and saturation may go from 1
    cutout: int = 0  # side of the black hole
    erase: bool = False  # a random rectangle of every other image
    policy: Literal["", "autoaugment", "randaugment"] = ""  # operations image by image

    @property
    def on_host(self) -> bool:
        """Whether crop and flip are done image by image on the host, because something there comes after them."""
        return self.policy != ""

    @property
    def needs_padding(self) -> int:
        """Black pixels around the images that the device is handed."""
        return 0 if self.on_host else self.padding

    @property
    def handed(self) -> tuple[int, int]:
        """Height and width, without padding, of the images that the device is handed."""
        return self.size if self.on_host and not self.resized else self.stored

    def draw(self, count: int, stream: Callable[[str], Stream]) -> Arrays:
        """The random numbers for `count` images; `stream` gives the stream of a purpose."""
        numbers: Arrays = {}
        room = [side + 2 * self.padding - seen for side, seen in zip(self.stored, self.size, strict=True)]
        if self.window and any(room):
            crop = stream("crop")
            numbers["top"], numbers["left"] = (crop.integers(free + 1, count) for free in room)
        if self.resized:
            numbers["box"] = resized_crop_boxes(*self.stored, count, stream("crop"), smallest=self.resized)
        if self.flip:
            numbers["flip"] = stream("flip").uniforms(count) < 0.5
        if self.jitter:
            spread = np.float32(self.jitter)
            numbers["colour"] = 1 - spread + 2 * spread * stream("colour").uniforms(count, 3)
            numbers["colour_order"] = stream("colour_order").integers(6, count)
        if self.vertical_flip:
            numbers["upside_down"] = stream("upside_down").uniforms(count) < 0.5
        if self.rotate:
            numbers["angle"] = np.float32(math.radians(TURN)) * (2 * stream("angle").uniforms(count) - 1)
        if self.policy == "autoaugment":
            numbers["policy"] = draw_choices(count, stream("policy"))
        elif self.policy == "randaugment":
            numbers["policy"] = draw_operations(count, stream("policy"))
        if self.erase:
            numbers["erased"] = erased_boxes(*self.size, count, stream("erased"))
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
    crop_area: float = 0.08,
) -> Augmentation:
    """The augmentation a recipe names, for images of a given size.

    Args:
        name: one of `NAMES`, or `PARTS` with + between them, as in "pad_crop+rotate".
        stored: height and width of the images as they are kept.
        channels: of the images, 1 or 3.
        crop: side of what the network sees in training; None for that of the image.
        evaluation_crop: side of the middle that it is tested on; None for the whole image.
        padding: black pixels on each side, for "pad_crop".
        flip: whether images are mirrored, where one of `NAMES` says that they may be.
        jitter: brightness, contrast and saturation are multiplied by numbers from 1 - jitter to 1 + jitter.
        crop_area: smallest share of the image that "resized_crop" shows.
    """
    parts = parts_of(name)
    if not 0 <= jitter <= 1:
        raise ConfigError(f"jitter = {jitter!r} received; it has to be from 0 (none) to 1")
    size = stored if crop is None else (crop, crop)
    window = "pad_crop" in parts
    padding = padding if window else 0
    if window and any(side < seen for side, seen in zip(stored, size, strict=True)):
        raise ConfigError(
            f"augment {name!r} cuts windows of {size[1]} x {size[0]} pixels, but the images are {stored[1]} x "
            f"{stored[0]}; prepare them larger (procrustean data prepare --size), or use 'random_resized_crop'"
        )
    policy: Literal["", "autoaugment", "randaugment"] = ""
    if "autoaugment" in parts:
        policy = "autoaugment"
    elif "randaugment" in parts:
        policy = "randaugment"
    if policy and channels != 3:
        raise ConfigError(f"augment {name!r} is for colour images, got {channels} channel(s); use 'pad_crop_flip'")
    return Augmentation(
        stored=stored,
        size=size,
        tested=stored if evaluation_crop is None else (evaluation_crop, evaluation_crop),
        padding=padding,
        window=window,
        resized=crop_area if "resized_crop" in parts else 0.0,
        flip="flip" in parts and (flip or name not in NAMES),
        vertical_flip="vertical_flip" in parts,
        rotate="rotate" in parts,
        jitter=jitter or (JITTER if "colour" in parts else 0.0),
        cutout=CUTOUT_SIDE if "cutout" in parts else 0,
        erase="erase" in parts,
        policy=policy,
    )


def draw_choices(count: int, stream: Stream) -> Choices:
    """For each image: the pair, whether the first and the second operation are done, and whether each goes backwards.

    Returns:
        [count, 5].
    """
    probabilities = np.array([[first[1], second[1]] for first, second in POLICY])
    pair = stream.integers(len(POLICY), count)
    done = stream.uniforms(count, 2) < probabilities[pair]
    backwards = stream.integers(2, count, 2)
    return np.concatenate([pair[:, None], done, backwards], axis=1).astype(np.uint8)


def draw_operations(count: int, stream: Stream) -> Choices:
    """RandAugment: for each image, which operations follow one another and whether each goes backwards.

    Returns:
        [count, 2 * IN_A_ROW].
    """
    chosen = stream.integers(len(RANDAUGMENT), count, IN_A_ROW)
    backwards = stream.integers(2, count, IN_A_ROW)
    return np.stack([chosen, backwards], axis=2).reshape(count, -1).astype(np.uint8)


def erased_boxes(height: int, width: int, count: int, stream: Stream) -> npt.NDArray[np.int32]:
    """Top, left, height and width of the rectangle that each of `count` images loses, [count, 4]; empty for half."""
    coin, area, shape, down, right = stream.uniforms(count, 5).astype(np.float64).T
    area = height * width * (ERASED[0] + (ERASED[1] - ERASED[0]) * area)
    ratio = np.exp(math.log(0.3) * (2 * shape - 1))  # height over width, 0.3 to 1 / 0.3
    tall = np.minimum(np.rint(np.sqrt(area * ratio)), height) * (coin < 0.5)
    wide = np.minimum(np.rint(np.sqrt(area / ratio)), width)
    top, left = np.floor(down * (height - tall + 1)), np.floor(right * (width - wide + 1))
    return np.stack([top, left, tall, wide], axis=1).astype(np.int32)


def resized_crop_boxes(
    height: int, width: int, count: int, stream: Stream, *, smallest: float
) -> npt.NDArray[np.int32]:
    """Top, left, height and width of `count` random parts of an image with at least this share of its area, [count, 4].

    Area and shape are drawn up to ten times until the part lies inside the image; after that it is the largest part in
    the middle with a permitted shape.
    """
    uniforms = stream.uniforms(count, ATTEMPTS, 2).astype(np.float64)
    places = stream.uniforms(count, 2).astype(np.float64)
    area = height * width * (smallest + (1 - smallest) * uniforms[..., 0])
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    ratio = np.exp(low + (high - low) * uniforms[..., 1])
    widths, heights = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first = fits.argmax(axis=1)
    rows = np.arange(count)
    chosen = np.stack([heights[rows, first], widths[rows, first]], axis=1)
    boxes = np.empty((count, 4), np.int32)
    boxes[:, :2] = places * (np.array([height, width]) - chosen + 1)
    boxes[:, 2:] = chosen
    boxes[~fits.any(axis=1)] = _middle(height, width)
    return boxes


def _middle(height: int, width: int) -> tuple[int, int, int, int]:
    tall, wide = height, width
    if width / height < RATIO[0]:
        tall = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        wide = round(height * RATIO[1])
    return (height - tall) // 2, (width - wide) // 2, tall, wide
