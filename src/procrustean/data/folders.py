"""Images from a folder per class, with or without train, val and test folders above them, or with a table in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.image_files import SUFFIXES, ImageFile, Problems
from procrustean.data.image_groups import PARENT, path_below
from procrustean.data.image_lists import EMPTY_CLASS, NESTED, OUTSIDE, SPLIT_NAMES, Found, composed
from procrustean.data.tables import has_splits, list_table

LAYOUT = "the layout is FOLDER/class/image or FOLDER/train/class/image"
LEFTOVERS = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"}  # of file managers, lower case


def list_folder(root: Path, group: str | None = None) -> Found:
    """Every file of `root/class/*` or `root/{train,val,test}/class/*`, sorted.

    Where the folder of a file is its group, files of `class/group/*` are images of the class too. Hidden files and
    leftovers of file managers (Thumbs.db ...) are passed over; what else lies elsewhere, and empty folders, are bad.
    """
    files: list[ImageFile] = []
    bad: Problems = {}
    nested: list[Path] = []
    splits = _split_folders(root, bad)

    def add(path: Path, split: str, label: str) -> None:
        files.append(ImageFile(str(path.relative_to(root)), path, split, composed(label)))

    for split, folder in splits.items():
        for class_folder in _folders(folder, root, bad):
            entries = entries_of(class_folder)
            if not entries:
                bad[str(class_folder.relative_to(root))] = EMPTY_CLASS
            for path in entries:
                if path.is_file():
                    add(path, split, class_folder.name)
                elif path.is_dir() and group == PARENT:
                    for inner in filter(Path.is_file, entries_of(path)):
                        add(inner, split, class_folder.name)
                elif path.is_dir():
                    nested.append(path)
                    bad[str(path.relative_to(root))] = NESTED
                else:
                    bad[str(path.relative_to(root))] = "not a regular file"
    if nested and len({file.label for file in files}) < 2:  # a note beside the folders of the classes is no class
        raise DataError(
            f"{root}: no images of two classes where they are looked for, but folders such as {nested[0]}; {LAYOUT}"
        )
    return Found(files, bad, set(splits))


def _split_folders(root: Path, bad: Problems) -> dict[str, Path]:
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    folders = _folders(root, root, bad)
    if not folders and any(_looks_like_an_image(path) for path in entries_of(root)):
        raise DataError(f"{root}: holds images but no folders of classes; {LAYOUT}")
    split_of = {folder: SPLIT_NAMES.get(folder.name.lower()) for folder in folders}
    only_splits = bool(folders) and all(split_of.values())
    training = [folder for folder, split in split_of.items() if split == "train"]
    # A class may be called "train" too: as a split it holds class folders.
    if not only_splits and not any(path.is_dir() for folder in training for path in entries_of(folder)):
        return {"train": root}
    splits: dict[str, Path] = {}
    for folder, split in split_of.items():
        if split is None:
            raise DataError(
                f"{folder}: unexpected beside the {training[0].name} folder; only {', '.join(SPLIT_NAMES)} are known "
                "there"
            )
        if split in splits:
            raise DataError(f"{root}: both {splits[split].name} and {folder.name} given; keep one")
        splits[split] = folder
    if "train" not in splits:
        named = ", ".join(folder.name for folder in folders)
        raise DataError(f"{root}: no train folder, only {named}; add one or name the folder of classes")
    return splits


def _folders(parent: Path, root: Path, bad: Problems) -> list[Path]:
    entries = entries_of(parent)
    bad.update({str(path.relative_to(root)): OUTSIDE for path in entries if not path.is_dir()})
    return [path for path in entries if path.is_dir()]


def _looks_like_an_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def entries_of(folder: Path) -> list[Path]:
    """What a folder holds, sorted, without hidden files and leftovers of file managers."""
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be listed ({error.strerror or error})") from error
    return [path for path in entries if not path.name.startswith(".") and path.name.lower() not in LEFTOVERS]


LABELS = "labels.csv"  # a table beside the images, which says more of them than their folders do
NOT_LISTED = f"not in {LABELS}"


def labels_of(folder: Path) -> Path | None:
    """The table of a folder, if it has one."""
    table = folder / LABELS
    return table if table.is_file() else None


def list_labelled(root: Path, group: str | None = None) -> Found:
    """The images that `root/labels.csv` names, as `list_table`; those that it does not name are bad.

    Without a column of splits, folders of the usual names are the splits. An image in a folder called like another
    class is bad too: one of both labels is wrong.
    """
    table = root / LABELS
    found = list_table(table, group)
    files, bad, named = found.files, found.bad, found.named
    if not has_splits(table):
        files = _split_by_folder(files, root)
        named = {file.split for file in files}
    listed, classes = {path_below(file, root) for file in files}, {file.label for file in files}
    for file in files:
        folder = Path(path_below(file, root)).parent.name
        if folder in classes and folder != file.label:
            bad[file.name] = f"labelled {file.label}, but in the folder {folder}"
    bad.update(dict.fromkeys((path for path in _images_below(root) if path not in listed), NOT_LISTED))
    return Found([file for file in files if file.name not in bad], bad, named)


def _split_by_folder(files: Sequence[ImageFile], root: Path) -> list[ImageFile]:
    first = [SPLIT_NAMES.get(Path(path_below(file, root)).parts[0].lower(), "") for file in files]
    if "train" not in first or "" in first:
        return list(files)
    return [replace(file, split=split) for file, split in zip(files, first, strict=True)]


def _images_below(root: Path) -> list[str]:
    """By their names; those in hidden folders are left out."""
    found = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]
        paths = ((Path(folder) / name).relative_to(root) for name in names if not name.startswith("."))
        found += [path.as_posix() for path in paths if path.suffix.lower() in SUFFIXES]
    return found
