"""Class frequencies where a model is used: by name, or from a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, did_you_mean
from .scaling import Prior


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
    return prior_of(_from_file(Path(choice)), classes, origin=choice)


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
    values = np.array([frequencies[name] for name in classes], np.float64)
    if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
        raise ConfigError(
            f"{origin}: frequencies are 0 or more, and at least one is above 0; received {values.tolist()}"
        )
    return np.asarray(values / values.sum())


def _from_file(path: Path) -> dict[str, float]:
    if path.suffix.lower() not in (".json", ".csv"):
        raise ConfigError(f"prior {str(path)!r} received; accepted: balanced, train, or a .json or .csv file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the prior {path} ({error})") from error
    try:
        if path.suffix.lower() == ".json":
            content = json.loads(text)
            pairs: list[Any] = list(content.items()) if isinstance(content, dict) else []
        else:
            pairs = [row for row in csv.reader(text.splitlines()) if row]
            if pairs and not _is_number(pairs[0][-1]):
                pairs = pairs[1:]  # a heading
        found = {str(name): float(value) for name, value in pairs}
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{path}: not a number for each class ({error}); write class,frequency lines, or {{'class': frequency}}"
        ) from error
    if not found:
        raise ConfigError(f"{path}: holds no frequencies; write one line per class: class,frequency")
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
