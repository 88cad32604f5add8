"""Images from a folder per class, with or without train, val and test folders above them."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from procrustean.data.imageset import Images, ImageSet, Splits
from procrustean.data.set_aside import set_aside_test
from procrustean.errors import ConfigError, DataError

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
LEFTOVERS = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"}  # of file managers, lower case
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
DEFAULT_SIZE = 64
NAMED_BAD_FILES = 5


@dataclass(frozen=True)
class _File:
    path: Path
    split: str
    label: str


def load_folder(root: Path, image_size: int | None = None) -> Splits:
    """Splits from `root/class/*` or `root/{train,val,test}/class/*`, as RGB; classes in sorted order.

    Without test images a fifth of each class is set aside. All images get one square size: `image_size`, else
    the one they share, else 64. Hidden files and leftovers of file managers (Thumbs.db ...) are passed over;
    any other file that is not a complete image is an error that names it.
    """
    if image_size is not None and image_size < 1:
        raise ConfigError(f"image_size must be at least 1 pixel, got {image_size}")
    bad: dict[Path, str] = {}
    files = _files(root, bad)
    sizes = _sizes(files, bad)
    size, notes = _common_size(set(sizes.values()), image_size)
    readable = [file for file in files if file.path in sizes]
    pixels = _decoded(readable, size, bad)
    _refuse(bad, root)
    classes = tuple(sorted({file.label for file in files if file.split == "train"}))
    splits = {split: _image_set(readable, pixels, split, classes) for split in dict.fromkeys(f.split for f in files)}
    train, test = splits["train"], splits.get("test")
    if test is None:
        train, test, note = set_aside_test(train, str(root))
        notes.append(note)
    return Splits(root.resolve().name, train, test, splits.get("val"), "; ".join(notes))


def _files(root: Path, bad: dict[Path, str]) -> list[_File]:
    """Every file of every class folder, sorted; what lies elsewhere goes to `bad`."""
    files: list[_File] = []
    for split, folder in _split_folders(root, bad).items():
        for class_folder in _folders(folder, bad):
            entries = _entries(class_folder)
            if not entries:
                raise DataError(f"{class_folder}: class folder without images; add some or remove the folder")
            for path in entries:
                if path.is_file():
                    files.append(_File(path, split, class_folder.name))
                else:
                    bad[path] = "a folder inside a class folder" if path.is_dir() else "not a regular file"
    _check_class_names(files, root, bad)
    return files


def _split_folders(root: Path, bad: dict[Path, str]) -> dict[str, Path]:
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    folders = _folders(root, bad)
    named = {folder.name: folder for folder in folders}
    only_splits = bool(folders) and set(named) <= set(SPLIT_NAMES)
    # A class may be called "train" too: as a split it holds class folders.
    if not only_splits and not ("train" in named and any(p.is_dir() for p in _entries(named["train"]))):
        return {"train": root}
    splits: dict[str, Path] = {}
    for name, folder in named.items():
        if name not in SPLIT_NAMES:
            raise DataError(
                f"{folder}: unexpected beside the train folder; only {', '.join(SPLIT_NAMES)} are known there"
            )
        if SPLIT_NAMES[name] in splits:
            raise DataError(f"{root}: both {splits[SPLIT_NAMES[name]].name} and {name} given; keep one")
        splits[SPLIT_NAMES[name]] = folder
    if "train" not in splits:
        raise DataError(f"{root}: no train folder, only {', '.join(named)}; add one or name the folder of classes")
    return splits


def _folders(parent: Path, bad: dict[Path, str]) -> list[Path]:
    entries = _entries(parent)
    bad.update({path: "not inside a class folder" for path in entries if not path.is_dir()})
    return [path for path in entries if path.is_dir()]


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be listed ({error.strerror or error})") from error
    return [path for path in entries if not path.name.startswith(".") and path.name.lower() not in LEFTOVERS]


def _check_class_names(files: list[_File], root: Path, bad: dict[Path, str]) -> None:
    classes = {split: {file.label for file in files if file.split == split} for split in SPLIT_NAMES.values()}
    for split in ("test", "val"):
        extra = sorted(classes[split] - classes["train"])
        if extra:
            raise DataError(
                f"{root}: class {extra[0]!r} is in the {split} folder but not in the train folder; "
                "add training images or remove it"
            )
    if len(classes["train"]) < 2:
        _refuse(bad, root)
        raise DataError(
            f"{root}: at least two class folders with images are needed, found {len(classes['train'])}; "
            "the layout is ROOT/class/image or ROOT/train/class/image"
        )


def _sizes(files: list[_File], bad: dict[Path, str]) -> dict[Path, tuple[int, int]]:
    """Width and height from the header of each file that has one."""
    sizes = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for file in files:
            try:
                with Image.open(file.path, formats=FORMATS) as image:
                    sizes[file.path] = image.size
            except Exception as error:  # decoders raise nearly anything on damaged files
                bad[file.path] = reason(file.path, error)
    return sizes


def _common_size(sizes: set[tuple[int, int]], asked: int | None) -> tuple[int, list[str]]:
    if asked is not None:
        return asked, [] if sizes == {(asked, asked)} else [f"images resized to {asked}x{asked}"]
    if len(sizes) == 1:
        width, height = next(iter(sizes))
        if width == height:
            return width, []
    return DEFAULT_SIZE, [f"images are not of one square size: resized to {DEFAULT_SIZE}x{DEFAULT_SIZE}"]


def _decoded(files: list[_File], size: int, bad: dict[Path, str]) -> Images:
    pixels = np.empty((len(files), size, size, 3), np.uint8)
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        problems = pool.map(partial(_decode, size=size), files, pixels)
        bad.update({file.path: problem for file, problem in zip(files, problems, strict=True) if problem})
    return pixels


def _decode(file: _File, out: Images, size: int) -> str:
    """Write the image into `out`; the answer is the problem, empty when there is none."""
    try:
        with Image.open(file.path, formats=FORMATS) as image:
            upright = convertible(ImageOps.exif_transpose(image)).convert("RGB")
        if upright.size != (size, size):
            upright = upright.resize((size, size), Image.Resampling.BILINEAR)
        out[:] = np.asarray(upright)
    except Exception as error:  # decoders raise nearly anything on damaged files
        return reason(file.path, error)
    return ""


def convertible(image: Image.Image) -> Image.Image:
    """An image whose conversion to RGB neither warns nor cuts bright pixels off."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels, save it with 8 or 16 bits")
    return image.convert("RGBA") if image.mode == "P" else image


def reason(path: Path, error: Exception) -> str:
    """Why an image file cannot be used, in words."""
    if path.stat().st_size == 0:
        return "empty file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {Image.MAX_IMAGE_PIXELS:,} pixels"
    return f"damaged: {error}"


def _refuse(bad: dict[Path, str], root: Path) -> None:
    if not bad:
        return
    named = [f"  {path.relative_to(root)}: {bad[path]}" for path in sorted(bad)[:NAMED_BAD_FILES]]
    if len(bad) > NAMED_BAD_FILES:
        named.append(f"  and {len(bad) - NAMED_BAD_FILES} more")
    files = "1 file cannot" if len(bad) == 1 else f"{len(bad)} files cannot"
    raise DataError(f"{root}: {files} be used; remove or replace:\n" + "\n".join(named))


def _image_set(files: list[_File], pixels: Images, split: str, classes: tuple[str, ...]) -> ImageSet:
    rows = [row for row, file in enumerate(files) if file.split == split]
    labels = {name: label for label, name in enumerate(classes)}
    return ImageSet(pixels[rows], np.array([labels[files[row].label] for row in rows], np.int64), classes)
