"""Images listed in a table, CSV or parquet: a column of paths (or images), one of labels, perhaps one of splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from procrustean.data.image_files import ImageFile, Problems
from procrustean.data.listed import check_classes, split_name
from procrustean.data.table_files import read_csv, read_parquet
from procrustean.errors import DataError

#: What columns may be called, in capitals or not.
IMAGE_NAMES = ("path", "image", "file", "filename", "file_name", "filepath", "file_path", "image_path", "img")
LABEL_NAMES = ("label", "class", "category", "target", "labels", "class_name", "label_name")
SPLIT_NAMES = ("split", "subset", "set", "partition")


def list_table(path: Path, bad: Problems) -> list[ImageFile]:
    """The images of a table, paths relative to its folder; rows that name none go to `bad`."""
    read = read_parquet if path.suffix.lower() == ".parquet" else read_csv
    table = read(path, lambda names: needed_columns(names, str(path)))
    return rows_as_files(table.columns, table.numbers, where=str(path), folder=path.parent, bad=bad)


def needed_columns(names: Sequence[str], where: str) -> list[str]:
    """The columns of images, labels and perhaps splits, in this order.

    Args:
        names: of all columns.
        where: the table in messages.
    """
    image = _needed(names, IMAGE_NAMES, "images", where)
    label = _needed(names, LABEL_NAMES, "labels", where)
    split = _column(names, SPLIT_NAMES, "splits", where)
    return [image, label] if split is None else [image, label, split]


def rows_as_files(
    columns: Mapping[str, Sequence[Any]],
    numbers: Sequence[int],
    *,
    where: str,
    folder: Path,
    bad: Problems,
    check: bool = True,
) -> list[ImageFile]:
    """The rows of a table as images.

    Args:
        columns: the table, by name.
        numbers: what the rows are called, as an editor counts.
        where: the table in messages.
        folder: what paths are relative to.
        bad: takes rows without an image or a label.
        check: whether the rows are all there is, so that two classes have to be among them.
    """
    image, label, *splits = needed_columns(list(columns), where)
    sides = columns[splits[0]] if splits else ["train"] * len(numbers)
    files: list[ImageFile] = []
    lines: dict[str, int] = {}
    for number, content, name, given in zip(numbers, columns[image], columns[label], sides, strict=True):
        made, shown = _content(content, folder)
        row = f"row {number}" + (f" ({shown})" if shown else "")
        if made is None:
            bad[row] = f"no image in column {image!r}"
        elif name is None or not str(name).strip():
            bad[row] = f"no label in column {label!r}"
        else:
            if shown and shown in lines:
                bad[row] = f"listed in row {lines[shown]} already"
            lines[shown] = number
            side = split_name(str(given), f"{where}, {row}")
            files.append(ImageFile(row, made, side, str(name).strip()))
    if not files and not bad:
        raise DataError(f"{where}: holds no rows; list one image per row")
    if check:
        check_classes(files, where)
    return files


def _needed(columns: Sequence[str], names: Sequence[str], what: str, where: str) -> str:
    column = _column(columns, names, what, where)
    if column is None:
        held = ", ".join(map(repr, columns)) or "nothing"
        raise DataError(
            f"{where}: no column of {what}; it holds {held}. Call the column {names[0]!r} (known: {', '.join(names)})"
        )
    return column


def _column(columns: Sequence[str], names: Sequence[str], what: str, where: str) -> str | None:
    found = [column for column in columns if column.strip().lower() in names]
    if len(found) > 1:
        both = " and ".join(map(repr, found))
        raise DataError(f"{where}: {both} could each be the column of {what}; rename all but one")
    return found[0] if found else None


def _content(value: Any, folder: Path) -> tuple[Path | bytes | None, str]:
    """A path or the bytes of an image, and how to call it; Hugging Face keeps both in one mapping."""
    if isinstance(value, Mapping):
        path = value.get("path")
        if value.get("bytes") is not None:
            return bytes(value["bytes"]), str(path or "")
        value = path
    if isinstance(value, bytes):
        return value, ""
    if value is None or not str(value).strip():
        return None, ""
    return folder / Path(str(value).strip()).expanduser(), str(value).strip()
