"""Images listed in a CSV or parquet table or a data set of Hugging Face: a column of paths (or images), one of labels,
perhaps one of splits."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError
from procrustean.base.files import expanded
from procrustean.base.machine import free_memory
from procrustean.base.optional_libraries import installing
from procrustean.data.image_files import SUFFIXES, ImageFile, Problems
from procrustean.data.image_lists import SPLIT_NAMES, Found, composed, split_name

#: What columns may be called, in capitals or not.
IMAGE_COLUMNS = ("path", "image", "file", "filename", "file_name", "filepath", "file_path", "image_path", "img")
LABEL_COLUMNS = ("label", "class", "category", "target", "labels", "class_name", "label_name")
SPLIT_COLUMNS = ("split", "subset", "set", "partition")
#: These may mean something else: they are of splits where they name nothing but splits.
LIKE_SPLITS = ("fold", "phase", "usage", "stage", "role", "purpose", "dataset", "data_split")
LONGEST_SHOWN = 200  # characters of a path in messages
#: What marks the class of an image where each class has a column, and what the other ones hold.
_YES, _NO = ("1", "1.0", "True", "true"), ("0", "0.0", "False", "false")
#: The part of the free memory that the values of a parquet file may take.
SHARE = 3
#: What a folder that `save_to_disk` has written holds one of.
HF_MARKS = ("dataset_dict.json", "dataset_info.json")


@dataclass(frozen=True)
class Rows:
    """What a table says of its images."""

    where: str  # the table in messages
    images: Sequence[Any]
    labels: Sequence[Any]
    splits: Sequence[Any]
    numbers: Sequence[int]  # of the rows, as an editor counts
    classes: Sequence[str] = ()  # names by number, where labels are numbers
    groups: Sequence[Any] | None = None  # of images that belong together

    def found(self, folder: Path) -> Found:
        """The rows as images, paths relative to a folder; those without an image or a label are bad."""
        files: list[ImageFile] = []
        bad: Problems = {}
        named: set[str] = set()
        first_rows: dict[Path | bytes, int] = {}
        completed = _Suffixes()
        groups = [""] * len(self.numbers) if self.groups is None else self.groups
        columns = (self.numbers, self.images, self.labels, self.splits, groups)
        for number, image, label, split, group in zip(*columns, strict=True):
            content, shown = _content(image, folder)
            content = completed.path(content) if isinstance(content, Path) else content
            row = f"row {number}" + (f" ({shown})" if shown else "")
            name, problem = self._label(label)
            side = split_name(str(split).strip(), f"{self.where}, row {number}")
            named.add(side)
            if content is None:
                bad[row] = "no image"
            elif problem:
                bad[row] = problem
            elif (first := first_rows.setdefault(_place(content), number)) != number:
                bad[row] = f"listed in row {first} already"
            else:
                together = _text(group) or row * (self.groups is not None)  # without a value, a group of its own
                files.append(ImageFile(row, content, side, composed(name), together))
        if not files and not bad:
            raise DataError(f"{self.where}: holds no rows; list one image per row")
        self._refuse_if_none_is_there(files)
        return Found(files, bad, named)

    def _label(self, value: Any) -> tuple[str, str]:
        """The class of a row, and what is wrong where there is none."""
        if self.classes and isinstance(value, int):
            if value >= len(self.classes):
                return "", f"label {value}, but there are {len(self.classes)} class names"
            # -1 stands for "no label" in data sets whose test labels were never published.
            value = self.classes[value] if value >= 0 else None
        if isinstance(value, list | Mapping):  # several classes of one image would become a class of their own
            return "", f"{value!r:.80} is no single label"
        text = _text(value)
        return text, "" if text else "no label"

    def _refuse_if_none_is_there(self, files: Sequence[ImageFile]) -> None:
        """DataError where all paths lead nowhere: it is not the files that are to be replaced."""
        paths = [file.content for file in files if isinstance(file.content, Path)]
        if len(paths) > 1 and len(paths) == len(files) and not any(map(os.path.exists, paths)):
            raise DataError(
                f"{self.where}: of the {len(paths)} images that it names none is there, the first as "
                f"{_shown(str(paths[0]))}; paths are relative to the folder of the table: move it, or write other ones"
            )


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their names, read when they are asked for."""

    names: Sequence[str]
    values: Callable[[str], Sequence[Any]]
    numbers: Sequence[int]  # of the rows, as an editor counts
    classes: Callable[[str], Sequence[str]] = (
        lambda column: ()
    )  # names by number, where a column of labels holds numbers


def list_table(path: Path, group: str | None = None) -> Found:
    """The images of a table, paths relative to its folder."""
    return _rows(str(path), read_columns(path), group).found(path.parent)


def read_columns(path: Path) -> Columns:
    """The columns of a CSV or parquet table."""
    if not path.is_file():  # a pipe would be waited for, and a device read, without end
        raise DataError(f"{path}: not a plain file" if path.exists() else f"{path}: there is no such file")
    return _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)


def has_splits(path: Path) -> bool:
    """Whether a table has a column of splits."""
    return any(name.strip().lower() in (*SPLIT_COLUMNS, *LIKE_SPLITS) for name in read_columns(path).names)


def is_hf_dataset(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((folder / mark).is_file() for mark in HF_MARKS)


def list_hf_dataset(folder: Path, group: str | None = None) -> Found:
    """The images of a `Dataset` or `DatasetDict` that was saved with `save_to_disk`, otherwise as `list_table`."""
    whole = Found([], {}, set())
    for name, part in _saved_parts(folder).items():
        found = _hf_rows(part, f"{folder}, {name} split" if name else str(folder), group).found(folder)
        side = split_name(name, str(folder)) if name else ""
        whole.named.update({side} if side else found.named)
        prefix = f"{name} " * bool(name)
        whole.files.extend(replace(row, name=prefix + row.name, split=side or row.split) for row in found.files)
        whole.bad.update({prefix + row: problem for row, problem in found.bad.items()})
    return whole


def _rows(where: str, columns: Columns, group: str | None) -> Rows:
    """The rows of a table, with those of its columns that are needed; `group` may name one of them."""
    names, values = columns.names, columns.values
    image = _column(names, IMAGE_COLUMNS, "images", where, needed=True)
    split = _column(names, SPLIT_COLUMNS, "splits", where, needed=False)
    one_hot = {} if any(map(_is_of_labels, names)) else _one_hot(columns, {image, split, group})
    label = "" if one_hot else _column(names, LABEL_COLUMNS, "labels", where, needed=True)
    splits: Sequence[Any] = values(split) if split else ["train"] * len(columns.numbers)
    for name in names if not split else ():
        if name.strip().lower() in LIKE_SPLITS and {str(n).strip().lower() for n in values(name)} <= set(SPLIT_NAMES):
            splits = values(name)
    together = next((name for name in names if group and name.strip().lower() == group.strip().lower()), None)
    groups = None if together is None else values(together)
    labels, classes = (_marked(one_hot), ()) if one_hot else (values(label), columns.classes(label))
    return Rows(where, values(image), labels, splits, columns.numbers, classes, groups)


def _is_of_labels(name: str) -> bool:
    return name.strip().lower() in LABEL_COLUMNS


def _one_hot(columns: Columns, others: Collection[str | None]) -> dict[str, Sequence[Any]]:
    """The columns of a table that has one for each class, with 1 for an image of the class and else 0."""
    found = {name: columns.values(name) for name in columns.names if name not in others}
    marks = {name: values for name, values in found.items() if values and set(map(_text, values)) <= {*_YES, *_NO}}
    return marks if len(marks) > 1 else {}


def _marked(one_hot: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The class of each row; None where none is marked, and all that are where several are."""
    labels: list[Any] = []
    for row in zip(*one_hot.values(), strict=True):
        names = [name for name, value in zip(one_hot, row, strict=True) if _text(value) in _YES]
        labels.append(names[0] if len(names) == 1 else names or None)
    return labels


def _column(names: Sequence[str], accepted: Sequence[str], what: str, where: str, *, needed: bool) -> str:
    found = [name for name in names if name.strip().lower() in accepted]
    if len(found) > 1:
        both = " and ".join(map(repr, found))
        raise DataError(f"{where}: {both} could each be the column of {what}; rename all but one")
    if needed and not found:
        raise DataError(
            f"{where}: no column of {what}; it holds {', '.join(map(repr, names)) or 'nothing'}. Call the column "
            f"{accepted[0]!r} (known: {', '.join(accepted)})"
        )
    return found[0] if found else ""


def _csv(path: Path) -> Columns:
    """Fields are separated by commas, semicolons or tabs; rows without anything in them are counted, but not used."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            delimiter = max(",;\t", key=heading.count)
            lines = csv.reader(chain([heading], file), delimiter=delimiter, strict=True)
            rows = {number: row for number, row in enumerate(lines, start=1) if row}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {lines.line_num}: {error}; is a quote missing that ends a value?") from error
    if not rows:
        raise DataError(f"{path}: an empty file; its first line names the columns, for example: path,label")
    names = [name.strip() for name in rows.pop(min(rows))]
    for number, row in rows.items():
        if len(row) != len(names):
            raise DataError(
                f"{path}, row {number}: {len(row)} values for {len(names)} columns; quote values that contain "
                f"{delimiter!r}"
            )
    columns = dict(zip(names, zip(*rows.values(), strict=True), strict=False))
    return Columns(names, lambda name: columns.get(name, ()), list(rows))


def _parquet(path: Path) -> Columns:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"{path}: parquet needs pyarrow ({error}); install it {installing('tables')}") from error
    try:
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
            if (taken := sum(group.total_byte_size for group in groups)) > (most := free_memory() // SHARE):
                raise DataError(
                    f"{path}: unpacks to {taken:,} bytes, and {most:,}, a third of the free memory, are the most that "
                    "is read; name images by their paths"
                )
            names, numbers = file.schema_arrow.names, range(1, 1 + file.metadata.num_rows)
        return Columns(names, lambda name: _parquet_column(path, name), numbers)
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{path}: not a readable parquet file ({error})") from error


def _parquet_column(path: Path, name: str) -> Sequence[Any]:
    from pyarrow import parquet

    try:
        return list(parquet.read_table(path, columns=[name]).column(0).to_pylist())
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{path}: not a readable parquet file ({error})") from error


def _saved_parts(folder: Path) -> dict[str, Any]:
    """Split name -> data set; a data set without splits is called ""."""
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"{folder}: a Hugging Face data set needs datasets ({error}); install it {installing('tables')}"
        ) from error
    try:
        loaded = datasets.load_from_disk(str(folder))
    except Exception as error:  # a damaged folder can raise nearly anything
        raise DataError(f"{folder}: not a readable data set of save_to_disk ({error})") from error
    return dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"": loaded}


def _hf_rows(part: Any, where: str, group: str | None) -> Rows:
    """The columns that are needed as plain values, images undecoded; labels that are numbers have names."""
    import datasets

    def values(name: str) -> Sequence[Any]:
        column = part.select_columns([name])
        column.data.validate(full=True)  # arrays that point outside of their file would be read as they are
        if isinstance(part.features[name], datasets.Image):
            column = column.cast_column(name, datasets.Image(decode=False))
        return list(column[name])

    def classes(name: str) -> Sequence[str]:
        feature = part.features[name]
        return list(feature.names) if isinstance(feature, datasets.ClassLabel) else ()

    try:
        return _rows(where, Columns(part.column_names, values, range(1, 1 + len(part)), classes), group)
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{where}: damaged ({error}); save it again") from error


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


class _Suffixes:
    """Completes paths without a suffix by the image of that name, if there is a single one."""

    def __init__(self) -> None:
        self._images: dict[Path, dict[str, list[Path]]] = {}  # of each folder, by their names without suffix

    def path(self, path: Path) -> Path:
        if path.suffix.lower() in SUFFIXES or os.path.exists(path):  # noqa: PTH110  that of pathlib raises for long names
            return path
        if path.parent not in self._images:
            found: dict[str, list[Path]] = {}
            for other in path.parent.iterdir() if os.path.isdir(path.parent) else ():  # noqa: PTH112
                if other.suffix.lower() in SUFFIXES:
                    found.setdefault(other.stem, []).append(other)
            self._images[path.parent] = found
        named = self._images[path.parent].get(path.name, [])
        return named[0] if len(named) == 1 else path


def _text(value: Any) -> str:
    """A value as a text, empty for what is missing: a number that is none is how some tables keep that."""
    return "" if value is None or value != value else str(value).strip()


def _place(content: Path | bytes) -> Path | bytes:
    """Where an image is, however its path is written; a link is an image of its own."""
    return Path(os.path.abspath(content)) if isinstance(content, Path) else content  # noqa: PTH100


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
