"""Images listed in a table, CSV or parquet: a column of paths (or images), one of labels, perhaps one of splits."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from procrustean.data.image_files import ImageFile, Problems
from procrustean.data.listed import check_classes, split_name
from procrustean.errors import DataError

#: What columns may be called, in capitals or not.
IMAGE_NAMES = ("path", "image", "file", "filename", "file_name", "filepath", "file_path", "image_path", "img")
LABEL_NAMES = ("label", "class", "category", "target", "labels", "class_name", "label_name")
SPLIT_NAMES = ("split", "subset", "set", "partition")


def list_table(path: Path, bad: Problems) -> list[ImageFile]:
    """The images of a table, paths relative to its folder; rows that name none go to `bad`."""
    columns = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    return rows_as_files(columns, where=str(path), folder=path.parent, bad=bad, first_row=2)


def rows_as_files(
    columns: Mapping[str, Sequence[Any]],
    *,
    where: str,
    folder: Path,
    bad: Problems,
    first_row: int = 1,
    check: bool = True,
) -> list[ImageFile]:
    """The rows of a table as images.

    Args:
        columns: the table, by name.
        where: the table in messages.
        folder: what paths are relative to.
        bad: takes rows without an image or a label.
        first_row: what the first row is called, as an editor counts.
        check: whether the rows are all there is, so that two classes have to be among them.
    """
    image = _needed(columns, IMAGE_NAMES, "images", where)
    label = _needed(columns, LABEL_NAMES, "labels", where)
    split = _column(columns, SPLIT_NAMES, "splits", where)
    files: list[ImageFile] = []
    lines: dict[str, int] = {}
    for number, (content, name) in enumerate(zip(columns[image], columns[label], strict=True), first_row):
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
            side = "train" if split is None else split_name(str(columns[split][number - first_row]), f"{where}, {row}")
            files.append(ImageFile(row, made, side, str(name).strip()))
    if not files and not bad:
        raise DataError(f"{where}: holds no rows; list one image per row")
    if check:
        check_classes(files, where)
    return files


def _needed(columns: Mapping[str, Sequence[Any]], names: Sequence[str], what: str, where: str) -> str:
    column = _column(columns, names, what, where)
    if column is None:
        held = ", ".join(map(repr, columns)) or "nothing"
        raise DataError(
            f"{where}: no column of {what}; it holds {held}. Call the column {names[0]!r} (known: {', '.join(names)})"
        )
    return column


def _column(columns: Mapping[str, Sequence[Any]], names: Sequence[str], what: str, where: str) -> str | None:
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


def _csv(path: Path) -> dict[str, list[Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error}); save it as UTF-8") from error
    heading = text.partition("\n")[0]
    delimiter = max(",;\t", key=heading.count)
    rows = list(csv.reader(text.splitlines(), delimiter=delimiter))
    if not rows:
        raise DataError(f"{path}: an empty file; the first line names the columns, for example: path,label")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: two columns have the same name in the first line: {', '.join(names)}")
    for number, row in enumerate(rows[1:], 2):
        if row and len(row) != len(names):
            raise DataError(
                f"{path}, row {number}: {len(row)} values for {len(names)} columns; quote values that contain "
                f"{delimiter!r}"
            )
    filled = [row for row in rows[1:] if row]
    return {name: [row[i] for row in filled] for i, name in enumerate(names)}


def _parquet(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            f"{path}: parquet needs pyarrow ({error}): pip install -c constraints.txt '.[tables]'"
        ) from error
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    try:
        content: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable parquet file ({error})") from error
    return content
