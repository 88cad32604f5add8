"""Which part of an image a random resized crop shows (Szegedy et al. 2015; the draw of torchvision's transform)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from procrustean.base.random_numbers import Stream

SCALE = (0.08, 1.0)  # share of the area
RATIO = (3 / 4, 4 / 3)  # width over height
ATTEMPTS = 10


def resized_crop_boxes(height: int, width: int, count: int, stream: Stream) -> npt.NDArray[np.int32]:
    """Top, left, height and width of `count` random parts of an image, [count, 4].

    Area and shape are drawn up to ten times until the part lies inside the image; after that it is the largest part in
    the middle with a permitted shape.
    """
    uniforms = stream.uniforms(count, ATTEMPTS, 2).astype(np.float64)
    places = stream.uniforms(count, 2).astype(np.float64)
    area = height * width * (SCALE[0] + (SCALE[1] - SCALE[0]) * uniforms[..., 0])
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
