"""Images in files or in memory, decoded to RGB of one square size; what cannot be read is told by name.

docs/reliability.md states the rules.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from procrustean.base.errors import ConfigError
from procrustean.base.machine import free_memory
from procrustean.base.optional_libraries import installing
from procrustean.base.progress import Headway
from procrustean.data.imageset import Images

#: The format whose 16-bit pixels Pillow hands out as 32-bit ones, from 0 to 65535.
NETPBM = "PPM"
#: Decoders that may be used; the name of a file says nothing about which.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "AVIF")
#: Files that end so are meant to be images: where they are none, that is a problem.
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
SUFFIXES |= {".avif", ".heic", ".heif"}
DEFAULT_SIZE = 64
#: What is wrong with files that were never meant to be images.
NOT_AN_IMAGE, EMPTY_FILE = "not an image", "empty file"
#: How files of other formats begin that phones, browsers and scanners write, and what they are.
OTHER_FORMATS = (
    (re.compile(rb"....ftyp(heic|heix|heim|heis|hevc|hevx|mif1|msf1)", re.DOTALL), "HEIC"),
    (re.compile(rb"....ftyp(avif|avis)", re.DOTALL), "AVIF"),
    (re.compile(rb".{128}DICM", re.DOTALL), "DICOM"),
)
#: What decoding a pixel takes at most, as it is in the file, upright and in RGB, four bytes each; and the part of the
#: free memory that decoding may take.
BYTES_PER_PIXEL, SHARE = 12, 8
#: 16-bit images that use no more bits than this are dark when they are cut to the upper eight.
MOST_BITS = 14
#: Files that a thread takes at a time.
MOST_IN_TURN = 16


class Unsupported(ValueError):
    """An intact image of a kind that cannot be used."""


@dataclass(frozen=True)
class ImageFile:
    """An image that is not decoded yet, with what its source says about it."""

    name: str  # how messages call it
    content: Path | bytes
    split: str  # "train", "val" or "test"
    label: str
    group: str = ""  # of images that belong together; empty if none is known

    def open(self) -> AbstractContextManager[Image.Image]:
        return _opened(self.content)

    @property
    def size(self) -> int:
        """Its bytes, encoded as they are."""
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)


@dataclass(frozen=True)
class Header:
    """What a file says of itself without being decoded."""

    width: int
    height: int
    mode: str  # of Pillow: RGB, L, RGBA, ...
    frames: int  # more than one if it is animated or has pages
    taken: float | None = None  # seconds, by the clock of the camera


#: Name of a file -> what is wrong with it.
Problems = dict[str, str]
#: Told what is read, how many files of it, and of how many.
Progress = Callable[[str, int, int], None]
T = TypeVar("T")


def untold(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def headers(files: Sequence[ImageFile], bad: Problems, progress: Progress = untold) -> dict[str, Header]:
    """The header of each file that has one, by the file's name; the others go to `bad`."""

    def read(row: int) -> Header | str:
        try:
            with files[row].open() as image:
                return _header(image)
        except Exception as error:  # decoders raise nearly anything on damaged files
            return reason(files[row].content, error)

    with _readers() as pool:
        read_ones = list(_in_turn(pool, read, range(len(files)), "looking at images", progress))
    bad.update({file.name: one for file, one in zip(files, read_ones, strict=True) if isinstance(one, str)})
    return {file.name: one for file, one in zip(files, read_ones, strict=True) if isinstance(one, Header)}


def _header(image: Image.Image) -> Header:
    return Header(image.width, image.height, image.mode, getattr(image, "n_frames", 1), _taken(image))


def _in_turn(
    pool: ThreadPoolExecutor, work: Callable[[int], T], rows: Sequence[int], what: str, progress: Progress
) -> Iterator[T]:
    """What is made of each row, in order."""
    # Several rows at a time: of a hundred thousand, the pool's own notes would take more than small images do.
    step = max(1, min(MOST_IN_TURN, len(rows) // (4 * pool._max_workers)))
    parts = [rows[start : start + step] for start in range(0, len(rows), step)]
    headway = Headway(progress, what, len(rows))
    for made in pool.map(lambda part: [work(row) for row in part], parts):
        yield from made
        headway.done(len(made))


def _taken(image: Image.Image) -> float | None:
    """When a photograph was taken, in seconds, if it says so."""
    if "exif" not in image.info:
        return None
    try:
        said = image.getexif().get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal, "")
        return datetime.strptime(str(said).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except Exception:  # damaged metadata raise nearly anything, and the image is good without them
        return None


def common_size(files: Sequence[ImageFile], found: Mapping[str, Header], asked: int | None) -> tuple[int, list[str]]:
    """The side all images get, with a note where they are resized: `asked`, else the one they share, else 64.

    Args:
        files: the images.
        found: the headers of those that have one, by name.
        asked: what the user wants.
    """
    if asked is not None and asked < 1:
        raise ConfigError(f"image_size must be at least 1 pixel, got {asked}")
    sizes = {(header.width, header.height) for header in found.values()}
    if asked is not None:
        return asked, [] if sizes == {(asked, asked)} else [f"images resized to {asked}x{asked}"]
    if len(sizes) == 1:
        width, height = next(iter(sizes))
        if width == height:
            return width, []
    return DEFAULT_SIZE, [f"images are not of one square size: resized to {DEFAULT_SIZE}x{DEFAULT_SIZE}"]


def decoded(files: Sequence[ImageFile], shape: tuple[int, int, int], bad: Problems) -> Images:
    """All files in one shape (height, width, channels), uint8 [N, *shape]; those in `bad` are black."""
    pixels = np.zeros((len(files), *shape), np.uint8)
    decode_into(pixels, files, bad)
    return pixels


def decode_into(
    pixels: Images,
    files: Sequence[ImageFile],
    bad: Problems,
    notes: Notes | None = None,
    progress: Progress = untold,
) -> None:
    """Write the pixels of all files that are not in `bad`.

    Args:
        pixels: where to, [N, height, width, channels]; the size that they get.
        files: the images.
        bad: what cannot be used, and takes what cannot be decoded.
        notes: takes what each file tells while it is open.
        progress: told how many are decoded.
    """
    good = [row for row, file in enumerate(files) if file.name not in bad]
    with _readers() as pool:
        large = LargeImages(pool._max_workers)
        what = f"reading images, {pixels.shape[2]} x {pixels.shape[1]}"
        problems = _in_turn(pool, lambda row: _decode(files[row], pixels[row], large, notes), good, what, progress)
        bad.update({files[row].name: problem for row, problem in zip(good, problems, strict=True) if problem})


class Notes:
    """What files tell of themselves while they are decoded, by several threads.

    The 16-bit images of X-ray and microscope cameras often use the lower bits alone: cut to the upper eight, they are
    dark.

    Args:
        of_all: whether to note headers and digests, too.
    """

    def __init__(self, *, of_all: bool = False) -> None:
        self.headers: dict[str, Header] = {}  # by name, of damaged files too
        self.digests: dict[str, str] = {}  # sha256 (hex) of all pixels, upright and in colour
        self._of_all, self._highest = of_all, list[float]()  # value of each 16-bit image

    def opened(self, file: ImageFile, image: Image.Image) -> None:
        """Note an image that has been opened and not been decoded yet."""
        if self._of_all:
            self.headers[file.name] = _header(image)
        if is_16_bit_grey(image):
            self._highest.append(float(image.getextrema()[1]))  # type: ignore[arg-type]
        # Of colours Pillow keeps the upper eight bits; how they are packed in the file tells that there were more.
        elif any(";16" in str(tile[3]) for tile in getattr(image, "tile", ())):
            bands = zip(image.getbands(), image.getextrema(), strict=True)
            self._highest.append(256 * max(high for band, (_, high) in bands if band != "A") + 255)  # type: ignore[misc,has-type]

    def decoded(self, file: ImageFile, upright: Image.Image) -> None:
        """Note an image with all its pixels."""
        if self._of_all:
            digest = hashlib.sha256(upright.tobytes())
            digest.update(repr(upright.size).encode())
            self.digests[file.name] = digest.hexdigest()

    def too_few_bits(self) -> str:
        """What to do if the images use few of their bits; empty if there is nothing to do."""
        highest = int(max(self._highest, default=0))
        bits = highest.bit_length()
        if not 0 < bits <= MOST_BITS:
            return ""
        return (
            f"{len(self._highest)} images of 16 bits use {bits} of them at most: no value is above {highest} of 65535. "
            f"Only the upper eight bits are read, {highest >> 8} of 255 at most, so they are dark. Rescale them: "
            f"magick mogrify -evaluate multiply {2 ** (16 - bits)} FILES"
        )


def is_16_bit_grey(image: Image.Image) -> bool:
    """Whether Pillow hands out all 16 bits of an image, which it does of grey ones alone."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == NETPBM)


def pixels_of(image: Image.Image, shape: tuple[int, ...]) -> Images:
    """An image as it is trained on: upright, RGB or grey, resized to (height, width, channels)."""
    return resized(upright_image(image, shape[2]), shape)


def upright_image(image: Image.Image, channels: int) -> Image.Image:
    """All pixels of an image, upright, RGB or grey."""
    # A copy forgets its format; the one that `convertible` asks for has no orientation.
    upright = image if image.format == NETPBM else ImageOps.exif_transpose(image)
    return convertible(upright).convert("RGB" if channels == 3 else "L")


def resized(image: Image.Image, shape: tuple[int, ...]) -> Images:
    """An upright image in (height, width, channels)."""
    height, width, _ = shape
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(shape)


def convertible(image: Image.Image) -> Image.Image:
    """An image whose conversion to RGB neither warns nor cuts bright pixels off."""
    if is_16_bit_grey(image):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise Unsupported("32-bit pixels, save it with 8 or 16 bits")
    return image.convert("RGBA") if image.mode == "P" else image


def reason(content: Path | bytes, error: Exception) -> str:
    """Why an image cannot be used, in words."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # the system's: no permission, a name that is too long, a loop of links
    if isinstance(content, Path) and not content.is_file():
        return "not a plain file"
    if (content.stat().st_size if isinstance(content, Path) else len(content)) == 0:
        return EMPTY_FILE
    if isinstance(error, UnidentifiedImageError):
        other = _other_format(content)
        install = f", or install pillow-heif {installing('heic')}" if other == "HEIC" and not _heic() else ""
        return f"not supported: {other}, save it as PNG or JPEG{install}" if other else NOT_AN_IMAGE
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {Image.MAX_IMAGE_PIXELS:,} pixels"
    if isinstance(error, MemoryError):
        return "decoding it takes more memory than there is"
    if isinstance(error, Unsupported):
        return f"not supported: {error}"
    return f"damaged: {error}"


def _other_format(content: Path | bytes) -> str:
    """What kind of image it is, if it is one of those that are known but not read; else empty."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            content = file.read(132)
    return next((name for beginning, name in OTHER_FORMATS if beginning.match(content)), "")


class LargeImages:
    """Large images wait for one another, so that the memory holds what is decoded at a time; small ones never do."""

    def __init__(self, threads: int) -> None:
        self._pixels = free_memory() // SHARE // BYTES_PER_PIXEL // threads
        self._one = threading.Lock()

    def turn_of(self, image: Image.Image) -> AbstractContextManager[object]:
        return self._one if image.width * image.height > self._pixels else nullcontext()


def _decode(file: ImageFile, out: Images, large: LargeImages, notes: Notes | None) -> str:
    """Write the image into `out`; the answer is the problem, empty when there is none."""
    try:
        with file.open() as image, large.turn_of(image):
            if notes is not None:
                notes.opened(file, image)
            whole = upright_image(image, out.shape[2])
            if notes is not None:
                notes.decoded(file, whole)
            out[:] = resized(whole, out.shape)
    except Exception as error:  # decoders raise nearly anything on damaged files
        return reason(file.content, error)
    return ""


def _opened(content: Path | bytes) -> Image.Image:
    if isinstance(content, Path) and content.exists() and not content.is_file():
        raise OSError("not a plain file")  # a pipe would be waited for without end
    return Image.open(content if isinstance(content, Path) else io.BytesIO(content), formats=(*FORMATS, *_heic()))


@cache
def _heic() -> tuple[str, ...]:
    """The format of phones, if its decoder is installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return ()
    register_heif_opener()
    return ("HEIF",)


@contextmanager
def _readers() -> Iterator[ThreadPoolExecutor]:
    """Threads that refuse decompression bombs; what has not begun when an error ends the work is dropped."""
    pool = ThreadPoolExecutor()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield pool
    finally:
        pool.shutdown(cancel_futures=True)
