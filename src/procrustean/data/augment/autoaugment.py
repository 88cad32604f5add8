"""AutoAugment's policy for CIFAR (Cubuk et al. 2019, table of the appendix), image by image with Pillow.

One of 25 pairs of operations is chosen for an image; each of the two is done with its own probability and strength.
Strengths count from 0 to 9 along the range of the operation; the direction of those that have one is drawn. What
shearing, shifting and turning uncover is grey, as in the code that long-tailed recognition uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageOps

from procrustean.base.random_numbers import Stream

#: Name, probability and strength of the two operations of each pair.
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
UNCOVERED = (128, 128, 128)
Choices = npt.NDArray[np.uint8]


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


def apply_policy(image: Image.Image, choice: Choices) -> Image.Image:
    """An RGB image after the operations that one row of `draw_choices` names."""
    pair, *rest = (int(value) for value in choice)
    for (name, _, strength), done, backwards in zip(POLICY[pair], rest[:2], rest[2:], strict=True):
        if done:
            image = OPERATIONS[name](image, strength / 9, -1 if backwards else 1)
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
