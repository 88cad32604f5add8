"""Images listed in a table, CSV or parquet: a column of paths (or images), one of labels, perhaps one of splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError, did_you_mean
from procrustean.base.paths import expanded
from procrustean.data.bad_files import refuse
from procrustean.data.image_files import ImageFile, Problems
from procrustean.data.image_lists import SPLIT_NAMES as SIDES
from procrustean.data.image_lists import OnBadImage, check_classes, composed
from procrustean.data.table_columns import read_csv, read_parquet

#: What columns may be called, in capitals or not.
IMAGE_NAMES = ("path", "image", "file", "filename", "file_name", "filepath", "file_path", "image_path", "img")
LABEL_NAMES = ("label", "class", "category", "target", "labels", "class_name", "label_name")
SPLIT_NAMES = ("split", "subset", "set", "partition")
LIKE_SPLITS = ("fold", "phase", "usage", "stage", "role", "purpose", "dataset", "data_split")  # or of another meaning
LONGEST_SHOWN = 200  # characters of a path in messages
MOST_NAMED = 5  # unknown splits in a message: another column may have been taken for them


def list_table(path: Path, bad: Problems, named: set[str], on_bad_image: OnBadImage = "error") -> list[ImageFile]:
    """The images of a table, paths relative to its folder; rows that name none go to `bad`, all splits to `named`.

    Classes without training images are refused, unless what cannot be used is to be left out.
    """
    read = read_parquet if path.suffix.lower() == ".parquet" else read_csv
    others: list[str] = []

    def needed(names: Sequence[str]) -> list[str]:
        others.extend(name for name in names if name.strip().lower() in LIKE_SPLITS)
        return needed_columns(names, str(path))

    table = read(path, needed)
    if others and len(table.columns) < 3:
        _refuse_unread_splits(read(path, lambda names: others).columns, path)
    check = on_bad_image == "error"
    return rows_as_files(
        table.columns, table.numbers, where=str(path), folder=path.parent, bad=bad, named=named, check=check
    )


def _refuse_unread_splits(columns: Mapping[str, Sequence[Any]], path: Path) -> None:
    """DataError for splits under a name that is not known for them: test images would be trained on."""
    for name, values in columns.items():
        words = {str(value).strip().lower() for value in values}
        if len(words) > 1 and words <= set(SIDES):
            raise DataError(
                f"{path}: the column {name!r} holds {', '.join(sorted(words))}, which are splits; call it 'split', or "
                "remove it if these are not to be used"
            )


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
    named: set[str],
    classes: Sequence[str] | None = None,
    check: bool = True,
) -> list[ImageFile]:
    """The rows of a table as images.

    Args:
        columns: the table, by name.
        numbers: what the rows are called, as an editor counts.
        where: the table in messages.
        folder: what paths are relative to.
        bad: takes rows without an image or a label.
        named: takes the splits of all rows, those in `bad` too.
        classes: names by number, where labels are numbers.
        check: whether the classes have to be right: two of them, and none that is tested alone.
    """
    image, label, *splits = needed_columns(list(columns), where)
    sides = columns[splits[0]] if splits else ["train"] * len(numbers)
    files: list[ImageFile] = []
    places, forms = _Places(), _Forms(where)
    unknown: dict[str, list[str]] = {}  # splits, with their rows
    for number, value, name, given in zip(numbers, columns[image], columns[label], sides, strict=True):
        content, shown = _content(value, folder)
        row = f"row {number}" + (f" ({shown})" if shown else "")
        text, problem = _label(name, label, classes)
        if content is None:
            bad[row] = f"no image in column {image!r}"
        elif problem:
            bad[row] = problem
        else:
            earlier = places.first_row(content, number)
            if earlier != number:
                bad[row] = f"listed in row {earlier} already"
            side = SIDES.get(str(given).strip().lower())
            if side is None:
                unknown.setdefault(str(given).strip(), []).append(row)
            else:
                files.append(ImageFile(row, content, side, forms.composed(text, side, number)))
    _refuse_unknown_splits(unknown, where)
    named.update(SIDES[text] for text in {str(given).strip().lower() for given in sides} if text in SIDES)
    if not files and not bad:
        raise DataError(f"{where}: holds no rows; list one image per row")
    _refuse_if_none_is_there(files, where, folder)
    if check:
        check_rows(files, bad, where)
    return files


def _refuse_unknown_splits(rows: Mapping[str, Sequence[str]], where: str) -> None:
    """DataError for names of splits that are none, all of them at once."""
    if not rows:
        return
    named = [f"{name!r} in {len(found)} row{'s' * (len(found) > 1)}, first {found[0]}" for name, found in rows.items()]
    more = f"; and {len(named) - MOST_NAMED} others" if len(named) > MOST_NAMED else ""
    raise DataError(
        f"{where}: unknown split{'s' * (len(named) > 1)}: {'; '.join(named[:MOST_NAMED])}{more}. "
        + did_you_mean(next(iter(rows)), SIDES)
    )


def check_rows(files: Sequence[ImageFile], bad: Problems, where: str) -> None:
    """DataError for classes that are not right; where there are too few, what is wrong with the other rows says why."""
    if len({file.label for file in files}) < 2:
        refuse(bad, where)
    check_classes(files, where)


def _refuse_if_none_is_there(files: Sequence[ImageFile], where: str, folder: Path) -> None:
    """DataError for a table of which all paths lead nowhere: it is not the files that are to be replaced."""
    paths = [file.content for file in files if isinstance(file.content, Path)]
    if len(paths) < 2 or len(paths) < len(files) or any(map(os.path.exists, paths)):
        return
    first = paths[0]
    if "\\" in str(first):
        advice = "write / in place of \\"
    elif not first.is_relative_to(folder):
        advice = "write where they are now"
    elif os.path.exists(first.relative_to(folder)):  # noqa: PTH110 (that of Path raises where a name is too long)
        advice = "paths are relative to the folder of the table, but these are to the current one: move the table here"
    else:
        advice = "paths are relative to the folder of the table: move it, or write other ones"
    raise DataError(
        f"{where}: of the {len(paths)} images that it names none is there, the first as {_shown(str(first))}; {advice}"
    )


class _Places:
    """Where images are, however their paths are written: ./0.png is 0.png, while a link is an image of its own."""

    def __init__(self) -> None:
        self._folders, self._rows = dict[Path, Path](), dict[Path, int]()

    def first_row(self, content: Path | bytes, number: int) -> int:
        """The row in which an image stands for the first time."""
        if isinstance(content, bytes) or "\0" in str(content):
            return number
        if content.parent not in self._folders:
            self._folders[content.parent] = Path(os.path.realpath(content.parent))
        return self._rows.setdefault(self._folders[content.parent] / content.name, number)


class _Forms:
    """Class names in Unicode's composed form; that a name is written in two forms is as odd as two folders of it."""

    def __init__(self, where: str) -> None:
        self._where, self._seen = where, dict[tuple[str, str], tuple[str, int]]()

    def composed(self, name: str, side: str, number: int) -> str:
        text = composed(name)
        first, row = self._seen.setdefault((side, text), (name, number))
        if first != name:
            raise DataError(
                f"{self._where}: the class {text!r:.80} is written in different Unicode forms in rows {row} and "
                f"{number}; write it in one"
            )
        return text


def _label(value: Any, column: str, classes: Sequence[str] | None) -> tuple[str, str]:
    """The class of a row, and what is wrong where there is none."""
    if classes is not None and isinstance(value, int):
        if value >= len(classes):
            return "", f"label {value} in column {column!r}, but there are {len(classes)} class names"
        # -1 stands for "no label" in data sets whose test labels were never published.
        value = classes[value] if value >= 0 else None
    if isinstance(value, list | Mapping):  # several classes of one image would become a class of their own
        return "", f"{value!r:.80} in column {column!r} is no single label"
    if isinstance(value, bytes):  # texts that were written without saying so
        value = value.decode(errors="backslashreplace")
    missing = value is None or value != value  # a number that is none, as which tables keep what is missing
    text = "" if missing else str(value).strip()
    return text, "" if text else f"no label in column {column!r}"


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
        if isinstance(value.get("bytes"), bytes):
            return value["bytes"], _shown(str(path or ""))
        value = path
    if isinstance(value, bytes):
        return value, ""
    text = "" if value is None else str(value).strip()
    return (folder / expanded(text), _shown(text)) if text else (None, "")


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
