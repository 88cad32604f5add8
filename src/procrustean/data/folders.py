"""Images from a folder per class, with or without train, val and test folders above them."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from procrustean.data.image_files import FORMATS, Header, convertible, decode, read_header, reason
from procrustean.data.imageset import Images, ImageSet, Splits
from procrustean.data.set_aside import set_aside_test
from procrustean.errors import ConfigError, DataError

__all__ = ["FORMATS", "OnBadImage", "convertible", "load_folder", "reason"]

OnBadImage = Literal["error", "skip"]
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
LEFTOVERS = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"}  # of file managers, lower case
DEFAULT_SIZE = 64
NAMED_BAD_FILES = 5
EMPTY = "class folder without images"

Problems = dict[Path, str]  # file or folder -> why it cannot be used


@dataclass(frozen=True)
class _File:
    path: Path
    split: str
    label: str


def load_folder(root: Path, image_size: int | None = None, on_bad_image: OnBadImage = "error") -> Splits:
    """Splits from `root/class/*` or `root/{train,val,test}/class/*`, as RGB; classes in sorted order.

    Without test images a fifth of each class is set aside. All images get one square size: `image_size`, else
    the one they share, else 64. Hidden files and leftovers of file managers (Thumbs.db ...) are passed over.

    Args:
        root: the folder.
        image_size: side in pixels.
        on_bad_image: "error" refuses a folder with any other file that is not a complete image, and names it; "skip"
            leaves such files out, and classes without training images with them, counts again and says so.
    """
    if image_size is not None and image_size < 1:
        raise ConfigError(f"image_size must be at least 1 pixel, got {image_size}")
    bad: Problems = {}
    files = _files(root, bad)
    if on_bad_image == "error":
        if empty := [folder for folder, problem in bad.items() if problem == EMPTY]:
            raise DataError(f"{empty[0]}: {EMPTY}; add some or remove the folder")
        _check_class_names(files, root, bad)
    headers = _headers(files, bad)
    size, notes = _common_size({(h.width, h.height) for h in headers.values()}, image_size)
    readable = [file for file in files if file.path in headers]
    pixels = _decoded(readable, size, bad)
    if on_bad_image == "error":
        _refuse(bad, root)
    good = [row for row, file in enumerate(readable) if file.path not in bad]
    trained = {readable[row].label for row in good if readable[row].split == "train"}
    good = [row for row in good if readable[row].label in trained]
    kept = [readable[row] for row in good]
    if bad or len(kept) < len(files):
        notes.append(_told(bad, sorted({file.label for file in files} - trained), root))
        _check_class_names(kept, root, {})
        _refuse_empty_splits(files, kept, root)
        pixels = pixels[good]
    if moving := sum(headers[file.path].frames > 1 for file in kept):
        notes.append(f"{moving} image{'s' * (moving > 1)} with several frames or pages: the first one is used")
    classes = tuple(sorted({file.label for file in kept if file.split == "train"}))
    splits = {split: _image_set(kept, pixels, split, classes) for split in dict.fromkeys(f.split for f in kept)}
    train, test = splits["train"], splits.get("test")
    if test is None:
        train, test, note = set_aside_test(train, str(root))
        notes.append(note)
    return Splits(root.resolve().name, train, test, splits.get("val"), "; ".join(notes))


def _files(root: Path, bad: Problems) -> list[_File]:
    """Every file of every class folder, sorted; what lies elsewhere goes to `bad`."""
    files: list[_File] = []
    for split, folder in _split_folders(root, bad).items():
        class_folders = _folders(folder, bad)
        _refuse_equal_names(class_folders)
        for class_folder in class_folders:
            entries = _entries(class_folder)
            if not entries:
                bad[class_folder] = EMPTY
            for path in entries:
                if path.is_file():
                    files.append(_File(path, split, _class_name(class_folder)))
                else:
                    bad[path] = "a folder inside a class folder" if path.is_dir() else "not a regular file"
    return files


def _class_name(folder: Path) -> str:
    """The name in Unicode's composed form, as which most systems store it: the same word is the same class."""
    return unicodedata.normalize("NFC", folder.name)


def _refuse_equal_names(folders: list[Path]) -> None:
    twice = [name for name, number in Counter(map(_class_name, folders)).items() if number > 1]
    if twice:
        raise DataError(
            f"{folders[0].parent}: two class folders are called {twice[0]!r}, in different Unicode forms; merge them"
        )


def _split_folders(root: Path, bad: Problems) -> dict[str, Path]:
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


def _folders(parent: Path, bad: Problems) -> list[Path]:
    entries = _entries(parent)
    bad.update({path: "not inside a class folder" for path in entries if not path.is_dir()})
    return [path for path in entries if path.is_dir()]


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be listed ({error.strerror or error})") from error
    return [path for path in entries if not path.name.startswith(".") and path.name.lower() not in LEFTOVERS]


def _check_class_names(files: list[_File], root: Path, bad: Problems) -> None:
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


def _refuse_empty_splits(files: list[_File], kept: list[_File], root: Path) -> None:
    empty = {file.split for file in files} - {file.split for file in kept}
    if empty:
        raise DataError(f"{root}: no image of the {min(empty)} folder can be used; replace them or remove the folder")


def _headers(files: list[_File], bad: Problems) -> dict[Path, Header]:
    """The header of each file that has one."""
    headers = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for file in files:
            try:
                headers[file.path] = read_header(file.path)
            except Exception as error:  # decoders raise nearly anything on damaged files
                bad[file.path] = reason(file.path, error)
    return headers


def _common_size(sizes: set[tuple[int, int]], asked: int | None) -> tuple[int, list[str]]:
    if asked is not None:
        return asked, [] if sizes == {(asked, asked)} else [f"images resized to {asked}x{asked}"]
    if len(sizes) == 1:
        width, height = next(iter(sizes))
        if width == height:
            return width, []
    return DEFAULT_SIZE, [f"images are not of one square size: resized to {DEFAULT_SIZE}x{DEFAULT_SIZE}"]


def _decoded(files: list[_File], size: int, bad: Problems) -> Images:
    pixels = np.empty((len(files), size, size, 3), np.uint8)
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        problems = pool.map(_problem, files, pixels)
        bad.update({file.path: problem for file, problem in zip(files, problems, strict=True) if problem})
    return pixels


def _problem(file: _File, out: Images) -> str:
    """Decode an image; the answer is what is wrong with it, empty when nothing is."""
    try:
        decode(file.path, out)
    except Exception as error:  # decoders raise nearly anything on damaged files
        return reason(file.path, error)
    return ""


def _refuse(bad: Problems, root: Path) -> None:
    if not bad:
        return
    named = [f"  {path.relative_to(root)}: {bad[path]}" for path in sorted(bad)[:NAMED_BAD_FILES]]
    if len(bad) > NAMED_BAD_FILES:
        named.append(f"  and {len(bad) - NAMED_BAD_FILES} more")
    files = "1 file cannot" if len(bad) == 1 else f"{len(bad)} files cannot"
    raise DataError(
        f"{root}: {files} be used; remove or replace:\n" + "\n".join(named) + "\n"
        "Or leave such files out with --on-bad-image skip, which counts the classes again"
    )


def _told(bad: Problems, left_out: list[str], root: Path) -> str:
    named = [f"{path.relative_to(root)} ({bad[path]})" for path in sorted(bad)[:NAMED_BAD_FILES]]
    if len(bad) > NAMED_BAD_FILES:
        named.append(f"{len(bad) - NAMED_BAD_FILES} more")
    parts = [f"{len(bad)} left out that cannot be used: {', '.join(named)}"] if bad else []
    if left_out:
        parts.append(f"classes left out for want of training images: {', '.join(left_out)}")
    return "; ".join([*parts, "classes counted again"])


def _image_set(files: list[_File], pixels: Images, split: str, classes: tuple[str, ...]) -> ImageSet:
    rows = [row for row, file in enumerate(files) if file.split == split]
    labels = {name: label for label, name in enumerate(classes)}
    return ImageSet(pixels[rows], np.array([labels[files[row].label] for row in rows], np.int64), classes)
