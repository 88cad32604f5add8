"""The part of an augmentation that is done image by image, in worker processes: window, flip, AutoAugment's policy and
RandAugment's operations.

What shearing, shifting and turning uncover is grey, as in the code that long-tailed recognition uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageOps

from procrustean.data.augment.settings import POLICY, RANDAUGMENT, STRENGTH, Arrays, Augmentation, Choices

UNCOVERED = (128, 128, 128)


def apply_policy(image: Image.Image, choice: Choices) -> Image.Image:
    """An RGB image after the operations that one row of `draw_choices` names."""
    pair, *rest = (int(value) for value in choice)
    for (name, _, strength), done, backwards in zip(POLICY[pair], rest[:2], rest[2:], strict=True):
        if done:
            image = OPERATIONS[name](image, strength / 9, -1 if backwards else 1)
    return image


def apply_operations(image: Image.Image, choice: Choices) -> Image.Image:
    """An RGB image after the operations that one row of `draw_operations` names."""
    for number, backwards in choice.reshape(-1, 2):
        image = OPERATIONS[RANDAUGMENT[number]](image, STRENGTH, -1 if backwards else 1)
    return image


Operation = Callable[[Image.Image, float, int], Image.Image]  # image, strength 0..1, direction


def _affine(
    image: Image.Image, coefficients: tuple[float, ...], filtering: Image.Resampling = Image.Resampling.NEAREST
) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, coefficients, filtering, fillcolor=UNCOVERED)


def _enhanced(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:
    return lambda image, strength, sign: kind(image).enhance(1 + sign * 0.9 * strength)


#: Largest shear 0.3, shift 150 of 331 pixels, turn 30 degrees, change of colour 0.9; 8 to 4 bits; threshold 256 to 0.
OPERATIONS: dict[str, Operation] = {
    "shear_x": lambda image, s, sign: _affine(image, (1, sign * 0.3 * s, 0, 0, 1, 0), Image.Resampling.BICUBIC),
    "shear_y": lambda image, s, sign: _affine(image, (1, 0, 0, sign * 0.3 * s, 1, 0), Image.Resampling.BICUBIC),
    "translate_x": lambda image, s, sign: _affine(image, (1, 0, sign * 150 / 331 * s * image.width, 0, 1, 0)),
    "translate_y": lambda image, s, sign: _affine(image, (1, 0, 0, 0, 1, sign * 150 / 331 * s * image.height)),
    "rotate": lambda image, s, sign: image.rotate(sign * 30 * s, fillcolor=UNCOVERED),
    "color": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "posterize": lambda image, s, sign: ImageOps.posterize(image, round(8 - 4 * s)),
    "solarize": lambda image, s, sign: ImageOps.solarize(image, math.ceil(256 - 256 * s)),
    "autocontrast": lambda image, s, sign: ImageOps.autocontrast(image),
    "equalize": lambda image, s, sign: ImageOps.equalize(image),
    "invert": lambda image, s, sign: ImageOps.invert(image),
}


Pixels = npt.NDArray[np.uint8]

#: The numbers that are used up here.
NUMBERS = ("top", "left", "flip", "policy")


def augment_batch(job: tuple[Augmentation, Pixels, Arrays]) -> Pixels:
    """Images [n, H, W, 3] after window, flip and policy, [n, h, w, 3].

    Args:
        job: the augmentation, the images, and the numbers of `NUMBERS` that were drawn for them.
    """
    spec, pixels, numbers = job
    border = ((0, 0), (spec.padding,) * 2, (spec.padding,) * 2, (0, 0))
    padded = np.pad(pixels, border) if spec.padding else pixels
    height, width = spec.handed
    apply = apply_policy if spec.policy == "autoaugment" else apply_operations
    out = np.empty((len(pixels), height, width, pixels.shape[3]), np.uint8)
    for row, image in enumerate(padded):
        top, left = (_number(numbers, name, row) for name in ("top", "left"))
        window = image[top : top + height, left : left + width]
        if _number(numbers, "flip", row) and not spec.resized:  # who cuts and resizes on the device flips there, too
            window = window[:, ::-1]
        out[row] = np.asarray(apply(Image.fromarray(window), numbers["policy"][row]))
    return out


def _number(numbers: Arrays, name: str, row: int) -> Any:
    return numbers[name][row] if name in numbers else 0
