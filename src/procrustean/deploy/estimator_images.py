"""What people hand to an estimator as images, as bytes of one shape."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from procrustean.base.errors import DataError
from procrustean.data.image_files import Header, ImageFile, Problems, common_size, decode_into, headers, pixels_of
from procrustean.data.image_lists import refuse
from procrustean.data.imageset import Images, room_for

Shape = tuple[int, int, int]


def files_among(images: Any) -> Sequence[Any] | None:
    """The images as a list if they are paths or pictures of Pillow; None if they are numbers."""
    if not isinstance(images, Sequence):  # an array, or a column of a table, whose index need not begin with 0
        if getattr(images, "ndim", None) != 1 or not hasattr(images, "tolist"):
            return None
        images = images.tolist()
    return images if len(images) > 0 and _is_file(images[0]) else None


def paths_among(images: Any) -> Sequence[str]:
    """The images as paths, if they are different files; none if they are anything else."""
    files = files_among(images) or ()
    paths = [os.path.abspath(path) for path in files if isinstance(path, str | Path)]  # noqa: PTH100  links stay
    return paths if len(set(paths)) == len(files) else ()


def write_table(paths: Sequence[str], labels: npt.NDArray[Any], table: Path) -> Path:
    """A table of files with their labels, as `load_source` reads one."""
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *zip(paths, labels.tolist(), strict=True)])
    return table


def pixels_of_files(images: Sequence[Any], shape: Shape | None, size: int | None) -> Images:
    """Paths or pictures as RGB pixels.

    Args:
        images: paths, or pictures of Pillow.
        shape: height, width and channels of those trained on; None while these are read.
        size: side to resize to; default the one they share, else 64.
    """
    if isinstance(images[0], Image.Image):
        return _of_pictures(images, shape, size)
    bad: Problems = {}
    files = [ImageFile(f"{number}: {path}", Path(path), "", "") for number, path in enumerate(images)]
    if shape is None:
        side, _ = common_size(files, headers(files, bad), size)
        shape = (side, side, 3)
    pixels = room_for((len(files), *shape))
    decode_into(pixels, files, bad)
    refuse(bad, "images", "The number before each is its position; leave it out together with its label")
    return pixels


def pixels_of_numbers(images: npt.NDArray[Any], shape: tuple[int, ...] | None, scale: float) -> Images:
    """Arrays as bytes, uint8 [N, H, W, channels].

    Args:
        images: [N, H, W] or [N, H, W, channels], or [N, numbers] to be folded into `shape`.
        shape: height, width and perhaps channels of images that come as rows of numbers.
        scale: what the values are multiplied by, that of the images fitted on; see `scale_of`. Values that are not on
            this scale are refused.
    """
    _refuse_another_scale(images, scale)
    if images.ndim == 2:
        images = images.reshape(len(images), *_folded(images.shape[1], shape))
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:3]:
        raise DataError(
            f"images of shape {images.shape} received; they are [N, H, W] or [N, H, W, channels] with 1 or 3 channels, "
            "or rows of numbers with image_shape=(H, W) or (H, W, channels)"
        )
    if images.dtype == np.uint8 and scale == 1:
        return images
    return np.asarray(np.clip(np.round(images * scale), 0, 255), np.uint8)  # 255.3 is 255 written less exactly


def scale_of(images: npt.NDArray[Any]) -> float:
    """What brings values to 0..255: 1 for bytes and numbers beyond 1, 255 for numbers from 0 to 1."""
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 255:
        raise DataError(f"pixel values from {low:g} to {high:g} received; scale them to 0..255, or to 0..1")
    return 255.0 if images.dtype.kind == "f" and high <= 1 else 1.0


def _refuse_another_scale(images: npt.NDArray[Any], scale: float) -> None:
    """DataError for values that would be cut off, or be next to nothing."""
    low, high = float(images.min()), float(images.max())
    most = 255 / scale
    beyond = scale * low < -0.5 or scale * high > 255.5  # what rounds to 0 or 255 is inexact, not beyond
    fractions = scale == 1 and 0 < high <= 1 and images.dtype.kind == "f" and bool((images % 1 != 0).any())
    if beyond or fractions:
        raise DataError(
            f"pixel values from {low:g} to {high:g} received, but it was fitted on values from 0 to {most:g}; scale "
            "them in the same way"
        )


def _folded(numbers: int, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    if shape is None:
        raise DataError(
            f"rows of {numbers} numbers received; say how they fold into images: image_shape=(H, W) or (H, W, channels)"
        )
    if int(np.prod(shape)) != numbers:
        raise DataError(f"rows of {numbers} numbers received, which do not fold into image_shape={shape}")
    return shape


def _of_pictures(images: Sequence[Any], shape: Shape | None, size: int | None) -> Images:
    if shape is None:
        found = {str(number): Header(image.width, image.height, image.mode, 1) for number, image in enumerate(images)}
        side, _ = common_size([], found, size)
        shape = (side, side, 3)
    return np.stack([_of_picture(image, number, shape) for number, image in enumerate(images)])


def _of_picture(image: Image.Image, number: int, shape: Shape) -> Images:
    try:
        return pixels_of(image, shape)
    except (OSError, ValueError) as error:
        raise DataError(f"picture {number} cannot be used: {error}") from error


def _is_file(value: Any) -> bool:
    return isinstance(value, str | Path | Image.Image)
