"""Classes that are announced for an image: those whose probability reaches their threshold."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.escaping import spreadsheet
from procrustean.engine.class_priors import prior_of
from procrustean.engine.probabilities import Prior

#: Thresholds in the order of the classes; infinite for a class that is never announced.
Levels = npt.NDArray[np.float64]


def read_levels(path: str | Path, classes: Sequence[str]) -> tuple[Levels, Prior | None]:
    """The thresholds in a file that `procrustean thresholds --output` wrote, or one with its first two columns.

    With them come the class frequencies that their probabilities are for; None where the file does not say.

    Args:
        path: a CSV file with the columns class and announce_from; one left empty is never reached.
        classes: names, in the order of the probabilities.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:  # a name may hold a line break of any kind
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the thresholds {path} ({error})") from error
    names = {spreadsheet(name): name for name in classes}  # as they stand in the file
    found: dict[str, float | None] = {}
    frequencies: dict[str, float] = {}
    for line, row in _rows(text, path):
        written, place = row["class"] or "", f"{path}, line {line}"  # a row may end before this column
        name = names.get(written, written)
        if name in found:
            raise ConfigError(f"{place}: the class {name!r:.80} is given twice; keep one")
        found[name] = _number(row["announce_from"], place, "is no probability")
        frequency = _number(row.get("prior"), place, "in the column prior is no frequency, such as 0.25")
        if frequency is not None:
            frequencies[name] = frequency
    levels = levels_of(found, classes, origin=str(path))
    return levels, prior_of(frequencies, classes, origin=f"{path}, column prior") if frequencies else None


def _rows(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows of such a file, each with the number of its line."""
    reader = csv.DictReader(StringIO(text, newline=""))
    try:
        if not {"class", "announce_from"} <= set(reader.fieldnames or ()):
            raise ConfigError(
                f"{path}: no columns class and announce_from; procrustean thresholds --output writes such a file"
            )
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:  # a quotation mark that is never closed makes a cell of all that follows
        raise ConfigError(f"{path}, line {reader.line_num}: {error}; write class,announce_from") from error


def _number(text: str | None, place: str, complaint: str) -> float | None:
    """A number of a cell, None for an empty one; `complaint` says what is wrong with anything else."""
    value = (text or "").strip()
    try:
        return float(value) if value else None
    except ValueError:
        raise ConfigError(f"{place}: {value!r:.80} {complaint}") from None


def levels_of(thresholds: Mapping[str, float | None], classes: Sequence[str], origin: str = "the thresholds") -> Levels:
    """Thresholds by class name in the order of the classes; None for a class that is never announced.

    >>> levels_of({"cat": 0.4, "dog": None}, ["dog", "cat"]).tolist()
    [inf, 0.4]
    """
    for name, value in thresholds.items():
        if name not in classes:
            raise ConfigError(f"{origin}: there is no class {name!r:.80}. {did_you_mean(name, classes)}")
        if value is not None and not 0 <= value <= 1:
            raise ConfigError(f"{origin}: {value} received for {name!r:.80}; a probability is from 0 to 1")
    missing = [name for name in classes if name not in thresholds]
    if missing:
        raise ConfigError(f"{origin}: nothing for {', '.join(missing[:5])}; every class needs a line")
    values = [thresholds[name] for name in classes]
    return np.array([np.inf if value is None else value for value in values])


def announced(probabilities: npt.NDArray[np.floating], levels: Levels, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes of one image whose probability reaches their threshold, the most probable first."""
    reached = [c for c in np.argsort(-probabilities, kind="stable") if probabilities[c] >= levels[c]]
    return tuple(classes[c] for c in reached)


def joined(names: Iterable[str]) -> str:
    """Names of classes in one text, separated by semicolons; those that would be misread are in double quotes.

    `csv.reader([text], delimiter=";", skipinitialspace=True)` takes it apart again.

    >>> joined(["cat", "cat; dog"])
    'cat; "cat; dog"'
    """
    return "; ".join(_quoted(name) if set(name) & set(';"\r\n') or name != name.strip() else name for name in names)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
