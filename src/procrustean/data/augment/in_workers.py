"""The part of an augmentation that is done image by image, in worker processes: window, flip and AutoAugment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from procrustean.data.augment.autoaugment import apply_policy
from procrustean.data.augment.settings import Arrays, Augmentation

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
    height, width = spec.size
    out = np.empty((len(pixels), height, width, pixels.shape[3]), np.uint8)
    for row, image in enumerate(padded):
        top, left = (_number(numbers, name, row) for name in ("top", "left"))
        window = image[top : top + height, left : left + width]
        if _number(numbers, "flip", row):
            window = window[:, ::-1]
        out[row] = np.asarray(apply_policy(Image.fromarray(window), numbers["policy"][row]))
    return out


def _number(numbers: Arrays, name: str, row: int) -> Any:
    return numbers[name][row] if name in numbers else 0
