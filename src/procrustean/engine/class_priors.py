"""Class frequencies where a model is used: by name, or from a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
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
    try:
        values = np.array([float(frequencies[name]) for name in classes])
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{origin}: {error}; give a count or a share for each class, such as 0.25") from error
    if not (values >= 0).all() or not 0 < values.sum() < math.inf:
        raise ConfigError(
            f"{origin}: frequencies are 0 or more, and at least one is above 0; received {values.tolist()}"
        )
    return np.asarray(values / values.sum())


def _from_file(path: Path, classes: Sequence[str]) -> dict[str, Any]:
    kind = path.suffix.lower()
    if kind not in (".json", ".csv"):
        raise ConfigError(f"prior {str(path)!r} received; accepted: balanced, train, or a .json or .csv file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        # A mapping would keep the last of two equal names.
        pairs = json.loads(text, object_pairs_hook=list) if kind == ".json" else _rows(text, classes)
        found = {str(name): value for name, value in pairs}
    except (OSError, ValueError, TypeError, RecursionError, csv.Error) as error:
        wanted = '{"class": frequency, ...}' if kind == ".json" else "one line per class: class,frequency"
        raise ConfigError(f"cannot read the prior {path} ({error}); write {wanted}") from error
    if len(found) < len(pairs):
        raise ConfigError(f"{path}: a class is given twice; keep one line of each")
    return found


def _rows(text: str, classes: Sequence[str]) -> list[tuple[str, str]]:
    """Class and frequency of each line of a CSV file but its heading."""
    # Spreadsheets of countries with decimal commas separate by semicolons.
    separator = ";" if ";" in text and ";" not in "".join(classes) else ","
    as_written = {spreadsheet(name): name for name in classes}  # in the CSV files of this library
    rows = []
    for row in csv.reader(StringIO(text, newline=""), delimiter=separator):
        if any(cell.strip() for cell in row):
            name, frequency = row
            rows.append((name if name in classes else as_written.get(name, name.strip()), frequency.strip()))
    return rows[1:] if rows and rows[0][0] not in classes else rows
