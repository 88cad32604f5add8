"""What the workers of `prepare` do: decode images, bring them to one size, write them to their place in the store."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from procrustean.base.errors import DataError
from procrustean.data.image_files import FORMATS, convertible, reason
from procrustean.data.stores.listing import Resize

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Chunk:
    """Images that stand together in the store."""

    images: list[str | bytes | Pixels]  # paths, encoded images, or pixels
    file: str  # of the store
    offset: int  # in bytes
    size: int  # side in pixels
    resize: Resize


@dataclass
class Decoded:
    """What became of a chunk."""

    sha256: str = ""  # of its bytes in the store
    damaged: dict[int, str] = field(default_factory=dict)  # place in the chunk -> why; black in the store
    converted: dict[int, str] = field(default_factory=dict)  # place in the chunk -> colour mode that was not RGB


def decode_chunk(chunk: Chunk) -> Decoded:
    """Decode the images of a chunk and write them; returns when they are on disk."""
    done = Decoded()
    pixels = np.zeros((len(chunk.images), chunk.size, chunk.size, 3), np.uint8)
    for place, image in enumerate(chunk.images):
        try:
            mode = decode(image, pixels[place], chunk.resize)
        except Exception as error:  # decoders raise nearly anything on damaged files
            done.damaged[place] = _reason(image, error)
            pixels[place] = 0
            continue
        if mode != "RGB":
            done.converted[place] = mode
    done.sha256 = hashlib.sha256(pixels.data).hexdigest()
    try:
        _write(pixels, chunk)
    except OSError as error:
        raise DataError(
            f"cannot write {chunk.file}: {error.strerror or error}. What has been decoded is kept: make room, or mend "
            "what is wrong with the disk, and give the same command again, which goes on from there"
        ) from error
    return done


def _write(pixels: Pixels, chunk: Chunk) -> None:
    """Put the images into their place and wait until they are on disk."""
    file = os.open(chunk.file, os.O_WRONLY)
    try:
        view = pixels.data.cast("B")
        written = 0
        while written < len(view):
            written += os.pwrite(file, view[written:], chunk.offset + written)
        os.fsync(file)
    finally:
        os.close(file)


def decode(image: str | bytes | Pixels, out: Pixels, resize: Resize) -> str:
    """Write an image, brought to the size of `out`, into it; returns its colour mode.

    "crop" brings the shorter side to size and keeps the middle, "stretch" brings both sides to size. Orientation tags
    are not followed, as they are not in the usual loaders of these data sets.
    """
    size = out.shape[0]
    if isinstance(image, np.ndarray):
        opened = Image.fromarray(image)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of broken orientation tags, which are not used
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(image if isinstance(image, str) else io.BytesIO(image), formats=FORMATS)
            opened.load()
    with opened:
        mode = opened.mode
        rgb = convertible(opened).convert("RGB")
    width, height = rgb.size
    box = (0.0, 0.0, float(width), float(height))
    if resize == "crop" and width != height:
        # The square of the middle, brought to size at once: resizing first and cropping then would give the same but
        # for the rounding of the longer side.
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    if rgb.size != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR, box=box)
    out[:] = np.asarray(rgb)
    return mode


def _reason(image: str | bytes | Pixels, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError):
        return error.strerror or str(error)
    return reason(Path(image), error) if isinstance(image, str) else f"damaged: {error}"
