"""One image file: what it is, what it shows as RGB, or why it cannot be used. docs/reliability.md states the rules."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from procrustean.data.imageset import Images

#: Decoders that may be used; the name of a file says nothing about which.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")


class Header(NamedTuple):
    """What a file says of itself."""

    width: int
    height: int
    frames: int  # more than one if it is animated or has pages


def read_header(path: Path) -> Header:
    """Size and frames of an image; raises nearly anything for a file that is none."""
    with Image.open(path, formats=FORMATS) as image:
        return Header(*image.size, getattr(image, "n_frames", 1))


def decode(path: Path, out: Images) -> None:
    """Write the image, upright and brought to the size of `out` (uint8 [side, side, 3]), into it."""
    size = (out.shape[1], out.shape[0])
    with Image.open(path, formats=FORMATS) as image:
        upright = convertible(ImageOps.exif_transpose(image)).convert("RGB")
    if upright.size != size:
        upright = upright.resize(size, Image.Resampling.BILINEAR)
    out[:] = np.asarray(upright)


def convertible(image: Image.Image) -> Image.Image:
    """An image whose conversion to RGB neither warns nor cuts bright pixels off."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels, save it with 8 or 16 bits")
    return image.convert("RGBA") if image.mode == "P" else image


def reason(path: Path, error: Exception) -> str:
    """Why an image file cannot be used, in words."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return error.strerror or str(error)
    if path.stat().st_size == 0:
        return "empty file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {Image.MAX_IMAGE_PIXELS:,} pixels"
    return f"damaged: {error}"
