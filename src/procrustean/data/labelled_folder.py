"""A folder with a table labels.csv beside its images, which says more of them than their folders do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from procrustean.data.grouping import path_below
from procrustean.data.image_files import SUFFIXES, ImageFile, Problems
from procrustean.data.image_lists import SPLIT_NAMES, OnBadImage
from procrustean.data.tables import check_rows, has_splits, list_table

LABELS = "labels.csv"
NOT_LISTED = f"not in {LABELS}"


def labels_of(folder: Path) -> Path | None:
    """The table of a folder, if it has one."""
    table = folder / LABELS
    return table if table.is_file() else None


def list_labelled(
    root: Path, bad: Problems, named: set[str], on_bad_image: OnBadImage = "error", group: str | None = None
) -> list[ImageFile]:
    """The images that `root/labels.csv` names, as `list_table`; images that it does not name go to `bad`.

    Without a column of splits, folders of the usual names are the splits. An image in a folder called like another
    class goes to `bad` too: one of both labels is wrong.
    """
    table, splits = root / LABELS, set[str]()
    files = list_table(table, bad, splits, "skip", group)
    if not has_splits(table):
        files = _split_by_folder(files, root)
        splits = {file.split for file in files}
    named |= splits
    listed, classes = {path_below(file, root) for file in files}, {file.label for file in files}
    for file in files:
        folder = Path(path_below(file, root)).parent.name
        if folder in classes and folder != file.label:
            bad[file.name] = f"labelled {file.label}, but in the folder {folder}"
    bad.update(dict.fromkeys((path for path in _images_below(root) if path not in listed), NOT_LISTED))
    files = [file for file in files if file.name not in bad]
    if on_bad_image == "error":
        check_rows(files, bad, str(root))
    return files


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
