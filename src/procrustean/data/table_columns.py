"""CSV and parquet files as columns: those that are needed, and no more than the memory takes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError
from procrustean.base.memory import free_memory, most_unpacked
from procrustean.base.optional_libraries import installing

#: What a byte of a CSV file takes at most, once its row is an image that is still to be decoded.
BYTES_PER_BYTE = 200
#: What a value takes beside its own bytes.
BYTES_PER_VALUE = 64
#: The part of the free memory that the values of a parquet file may take.
SHARE = 3
#: Rows of a parquet file that are decoded at a time, and the bytes they may take.
MOST_ROWS, BYTES_AT_ONCE = 64, 64 << 20

#: All names of columns -> those that are needed.
Choice = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class Table:
    """Columns of a file by name, and what an editor calls each row."""

    columns: dict[str, list[Any]]
    numbers: Sequence[int]


def read_csv(path: Path, choice: Choice) -> Table:
    """The columns that `choice` names; fields are separated by commas, semicolons or tabs."""
    size = _size(path)
    if (needed := BYTES_PER_BYTE * size) > (free := free_memory()):
        raise DataError(
            f"{path}: a table of {size:,} bytes may take {needed / 1e9:.3g} GB of memory, and {free / 1e9:.3g} GB are "
            "free; leave out columns that are not needed, or rows"
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            delimiter = max(",;\t", key=heading.count)
            return _table(path, csv.reader(chain([heading], file), delimiter=delimiter, strict=True), choice, delimiter)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error}); save it as UTF-8") from error


def _table(path: Path, lines: Iterator[list[str]], choice: Choice, delimiter: str) -> Table:
    rows = _rows(path, lines)
    _, heading = next(rows, (1, []))
    names = [name.strip() for name in heading]
    if not names:
        raise DataError(f"{path}: an empty file, or first line; it names the columns, for example: path,label")
    if len(set(names)) < len(names):
        raise DataError(f"{path}: two columns have the same name in the first line: {', '.join(names)}")
    places = {name: names.index(name) for name in choice(names)}
    columns: dict[str, list[Any]] = {name: [] for name in places}
    numbers: list[int] = []
    for number, row in rows:
        if len(row) != len(names):
            raise DataError(
                f"{path}, row {number}: {len(row)} values for {len(names)} columns; quote values that contain "
                f"{delimiter!r}"
            )
        numbers.append(number)
        for name, place in places.items():
            columns[name].append(row[place])
    return Table(columns, numbers)


def _rows(path: Path, lines: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows with their numbers; those without anything in them are counted, but not given."""
    number = 0
    while True:
        number += 1
        try:
            row = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{path}, row {number}: {error}; is a quote missing that ends a value?") from error
        if row or number == 1:
            yield number, row


def read_parquet(path: Path, choice: Choice) -> Table:
    """The columns that `choice` names; refused if they unpack to far more than the file has, or than there is room."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"{path}: parquet needs pyarrow ({error}); install it {installing('tables')}") from error
    size = _size(path)
    most = min(most_unpacked(size), free_memory() // SHARE)
    try:
        with parquet.ParquetFile(path) as file:
            needed = list(choice(file.schema_arrow.names))
            chunks = _chunks(file.metadata, needed)
            taken = max(sum(chunks), BYTES_PER_VALUE * len(needed) * file.metadata.num_rows)
            _refuse_more(path, size, taken, most)
            # A value that is written once may stand in every row, so that nothing but its rows bounds a batch.
            rows = min(MOST_ROWS, max(1, BYTES_AT_ONCE // max([1, *chunks])))
            columns: dict[str, list[Any]] = {name: [] for name in needed}
            taken = 0
            for batch in file.iter_batches(batch_size=rows, columns=needed, use_threads=False):
                for name in needed:
                    values = batch.column(name).to_pylist()
                    taken += sum(map(_bytes_of, values))
                    columns[name] += values
                _refuse_more(path, size, taken, most)
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{path}: not a readable parquet file ({error})") from error
    return Table(columns, range(1, 1 + len(columns[needed[0]])))


def _chunks(metadata: Any, needed: Sequence[str]) -> list[int]:
    """Bytes of each part of the needed columns, as the file says: unpacked, but every repeated value once."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    parts = (group.column(number) for group in groups for number in range(group.num_columns))
    return [part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] in needed]


def _bytes_of(value: Any) -> int:
    if isinstance(value, str | bytes):
        return BYTES_PER_VALUE + len(value)
    if isinstance(value, Mapping):
        return BYTES_PER_VALUE + sum(map(_bytes_of, value.values()))
    if isinstance(value, list):
        return BYTES_PER_VALUE + sum(map(_bytes_of, value))
    return BYTES_PER_VALUE


def _refuse_more(path: Path, size: int, taken: int, most: int) -> None:
    if taken > most:
        raise DataError(
            f"{path}: {size:,} bytes that unpack to {taken:,} or more, and {most:,} are the most that is read; "
            "refused. Name images by their paths, and leave out what is not needed"
        )


def _size(path: Path) -> int:
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if not path.is_file():
        raise DataError(f"{path}: not a plain file")  # a pipe would be waited for, and a device read, without end
    return path.stat().st_size
