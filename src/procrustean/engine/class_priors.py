"""Class frequencies where a model is used: by name, or from a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.escaping import spreadsheet
from procrustean.engine.probabilities import Prior


def read_prior(choice: str | None, classes: Sequence[str], counts: Sequence[int]) -> Prior | None:
    """The frequencies that `--prior` names, scaled to sum to 1; None leaves the scores as they are.

    Args:
        choice: "balanced", "train", a .json or .csv file with a number for each class, or None.
        classes: names, in the order of the scores.
        counts: training images per class.
    """
    if choice is None:
        return None
    if choice == "balanced":
        return np.full(len(classes), 1 / len(classes))
    if choice == "train":
        return np.asarray(counts, np.float64) / sum(counts)
    return prior_of(_from_file(Path(choice), classes), classes, origin=choice)


def prior_of(frequencies: Mapping[str, float], classes: Sequence[str], origin: str = "the prior") -> Prior:
    """Frequencies or counts by class name as a prior in the order of the classes.

    >>> prior_of({"cat": 3, "dog": 1}, ["dog", "cat"]).tolist()
    [0.25, 0.75]
    """
    for name in frequencies:
        if name not in classes:
            raise ConfigError(f"{origin}: there is no class {name!r}. {did_you_mean(name, classes)}")
    missing = [name for name in classes if name not in frequencies]
    if missing:
        raise ConfigError(
            f"{origin}: no frequency for {', '.join(missing[:5])}; give 0 for a class that does not occur"
        )
    values = np.array([_number(frequencies[name], f"{origin}, {name!r:.80}") for name in classes])
    if (values < 0).any() or not 0 < values.sum() < math.inf:
        raise ConfigError(
            f"{origin}: frequencies are 0 or more, and at least one is above 0; received {values.tolist()}"
        )
    return np.asarray(values / values.sum())


def _from_file(path: Path, classes: Sequence[str]) -> dict[str, float]:
    kind = path.suffix.lower()
    if kind not in (".json", ".csv"):
        raise ConfigError(f"prior {str(path)!r} received; accepted: balanced, train, or a .json or .csv file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # a name may hold a line break of any kind
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the prior {path} ({error})") from error
    found: dict[str, float] = {}
    for place, name, value in _of_json(text, path) if kind == ".json" else _of_csv(text, path, classes):
        if name in found:
            raise ConfigError(f"{place}: the class {name!r:.80} is given twice; keep one")
        found[name] = _number(value, place)
    if not found:
        raise ConfigError(f"{path}: holds no frequencies; write one line per class: class,frequency")
    return found


#: Where an entry stands, its class, its frequency.
_Entries = Iterator[tuple[str, str, Any]]


def _of_json(text: str, path: Path) -> _Entries:
    try:
        content = json.loads(text, object_pairs_hook=list)  # a mapping would keep the last of two equal names
    except (ValueError, RecursionError) as error:
        raise ConfigError(f'{path}: no JSON ({error}); write {{"class": frequency, ...}}') from error
    if not isinstance(content, list) or not all(isinstance(pair, tuple) for pair in content):
        raise ConfigError(f'{path}: holds {text.strip()!r:.60}; write {{"class": frequency, ...}}')
    for name, value in content:
        yield f"{path}, {name!r:.80}", name, value


def _of_csv(text: str, path: Path, classes: Sequence[str]) -> _Entries:
    # Spreadsheets of countries with decimal commas separate by semicolons.
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    separator = ";" if ";" in first_line and ";" not in "".join(classes) else ","
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
    as_written = {spreadsheet(name): name for name in classes}  # in the CSV files of this library
    first = True
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            place = f"{path}, line {reader.line_num}"
            if len(cells) != 2:
                raise ConfigError(f"{place}: {separator.join(row)!r:.80} received; write class{separator}frequency")
            name = row[0] if row[0] in classes else as_written.get(row[0], cells[0])
            heading = first and name not in classes and not _is_number(cells[1])
            first = False
            if not heading:
                yield place, name, cells[1]
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: {error}; write class{separator}frequency") from error


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not _is_number(value):
        raise ConfigError(f"{place}: {value!r:.80} is no number; give a count or a share, such as 0.25")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (ValueError, TypeError, OverflowError):
        return False
