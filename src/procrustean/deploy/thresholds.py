"""From which probability on a class may be announced: found on held-out images, kept in a CSV file, applied."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.escaping import spreadsheet
from procrustean.base.table_formats import NOTHING, Cell, Column, Table
from procrustean.deploy.model_loading import built_in_prior, held_out_of, model_folder, spec_of
from procrustean.engine.probabilities import Prior, class_frequencies, prior_of, read_prior

#: Significant decimal digits of a threshold; with 17 every float is told apart.
FEWEST_DIGITS, MOST_DIGITS = 4, 17


@dataclass(frozen=True)
class Threshold:
    """A class is announced where its probability is at least `value`; None where no value gives what is wanted."""

    name: str
    value: float | None
    precision: float | None  # on the held-out images, as they come or reweighted
    recall: float | None
    images: int  # held-out images of the class
    always: bool = False  # what is wanted holds even if the class is announced for every held-out image
    frequency: float | None = None  # of the class, where the probabilities are right


def thresholds(
    probabilities: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int64],
    classes: Sequence[str],
    *,
    precision: float | None = None,
    recall: float | None = None,
    weights: npt.NDArray[np.float64] | None = None,
) -> list[Threshold]:
    """For each class the lowest threshold with the wanted precision, or the highest with the wanted recall.

    The lowest with a precision has the best recall among those that keep it, and the other way round. A threshold lies
    halfway between the probability that just counts and the next lower one, with as few digits as tell them apart: the
    number as it is printed keeps the promise.

    Args:
        probabilities: of held-out images, [n, C].
        labels: their classes, [n].
        classes: names.
        precision, recall: what is wanted, one of the two, above 0 and at most 1.
        weights: of the images, where their class frequencies are not those of the use, [n].
    """
    if (precision is None) == (recall is None):
        raise ConfigError("give either a precision or a recall, for example --precision 0.95")
    wanted = precision if precision is not None else recall
    if wanted is None or not 0 < wanted <= 1:
        raise ConfigError(
            f"{'precision' if precision is not None else 'recall'} = {wanted} received; it lies in (0, 1]"
        )
    w = np.ones(len(labels)) if weights is None else weights
    return [
        _threshold(probabilities[:, c], labels == c, w, name, wanted, by_precision=precision is not None)
        for c, name in enumerate(classes)
    ]


def _threshold(
    p: npt.NDArray[np.float64],
    own: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float64],
    name: str,
    wanted: float,
    *,
    by_precision: bool,
) -> Threshold:
    images = int(own.sum())
    if weights[own].sum() == 0:  # not among the held-out images, or not where the model is used
        return Threshold(name, None, None, None, images)
    order = np.argsort(-p, kind="stable")
    values, hits, mass = p[order], np.cumsum((weights * own)[order]), np.cumsum(weights[order])
    # Equal probabilities are announced together: only the last of them is a threshold.
    ends = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    # Where only images without weight are announced, nothing is.
    precisions = np.divide(hits[ends], mass[ends], out=np.zeros(len(ends)), where=mass[ends] > 0)
    recalls = hits[ends] / hits[-1]
    slack = 1e-12  # sums of weights round
    good = np.flatnonzero((precisions if by_precision else recalls) >= wanted - slack)
    if len(good) == 0:
        return Threshold(name, None, None, None, images)
    at = good[-1] if by_precision else good[0]
    below = values[ends[at] + 1] if ends[at] + 1 < len(values) else 0.0
    value = _between(float(below), float(values[ends[at]]))
    always = bool(ends[at] + 1 == len(values))
    return Threshold(name, value, float(precisions[at]), float(recalls[at]), images, always)


def _between(below: float, upper: float) -> float:
    """A number above `below` and at most `upper`, near their middle, with few decimal digits.

    >>> _between(0.91, 0.98)
    0.945
    """
    middle = (Decimal(below) + Decimal(upper)) / 2
    for digits in range(FEWEST_DIGITS, MOST_DIGITS + 1):
        rounded = float(Context(prec=digits, rounding=ROUND_DOWN).plus(middle))
        if below < rounded:
            return rounded
    return upper


#: Lower thresholds are not told apart where they are shown.
SMALLEST_SHOWN = 0.001


def thresholds_of(
    model: str | Path, *, precision: float | None = None, recall: float | None = None, prior: str | None = None
) -> list[Threshold]:
    """From which probability on each class has the wanted precision, or up to which it has the wanted recall.

    Args:
        model: folder of a run or an export.
        precision, recall: what is wanted, one of the two, above 0 and at most 1.
        prior: class frequencies where it is used, the same as for `predict`; precision depends on them. Without it
            the probabilities are those that `predict` gives without it, and precision is counted on the held-out images
            as they are, or for what an export has built in.
    """
    folder = model_folder(model)
    spec = spec_of(folder)
    scores, labels = held_out_of(model)
    q = built_in_prior(folder) if prior is None else read_prior(prior, spec.classes, spec.calibration.counts)
    weights = None
    if q is not None:
        held_out = class_frequencies(labels, len(spec.classes))
        weights = (q / np.where(held_out > 0, held_out, 1.0))[labels]
    probabilities = np.exp(spec.calibration.log_probabilities(scores, q))
    found = thresholds(probabilities, labels, spec.classes, precision=precision, recall=recall, weights=weights)
    frequencies = spec.calibration.frequencies(q)
    return [replace(t, frequency=float(share)) for t, share in zip(found, frequencies, strict=True)]


def table_of(found: Sequence[Threshold], wanted: str) -> Table:
    """The thresholds to be shown; the numbers in percent are rounded, and whole in CSV.

    CSV also has the class frequencies that they are for, by which `predict` knows whether it may apply them.

    Args:
        found: of each class.
        wanted: what they were asked for, in words.
    """
    names = ("class", "announce_from", "precision", "recall", "held_out_images")
    headings = ("class", "announce from", "precision %", "recall %", "held-out images")
    shown = tuple(Column(n, h, numeric=n != "class") for n, h in zip(names, headings, strict=True))
    rows = tuple(
        (
            Cell(t.name),
            _announce_from(t),
            _percent(t.precision),
            _percent(t.recall),
            Cell(str(t.images)),
            Cell(NOTHING if t.frequency is None else repr(t.frequency)),
        )
        for t in found
    )
    return Table(f"Thresholds for {wanted}", (*shown, Column("prior", "prior", csv_only=True)), rows)


def _announce_from(threshold: Threshold) -> Cell:
    """The number as it keeps its promise; one that nobody would read is named, and whole in CSV."""
    if threshold.value is None:
        return Cell(NOTHING)
    whole = np.format_float_positional(threshold.value, trim="-")
    if threshold.always:
        return Cell("always", whole=whole)
    return Cell(f"below {SMALLEST_SHOWN}", whole=whole) if threshold.value < SMALLEST_SHOWN else Cell(whole)


def _percent(share: float | None) -> Cell:
    return Cell(NOTHING) if share is None else Cell(f"{100 * share:.1f}", whole=repr(share))


#: Thresholds in the order of the classes; infinite for a class that is never announced.
Levels = npt.NDArray[np.float64]


def read_levels(path: str | Path, classes: Sequence[str]) -> tuple[Levels, Prior | None]:
    """The thresholds in a file that `procrustean thresholds --output` wrote, or one with its first two columns.

    With them come the class frequencies that their probabilities are for; None where the file does not say.

    Args:
        path: a CSV file with the columns class and announce_from; one left empty is never reached.
        classes: names, in the order of the probabilities.
    """
    names = {spreadsheet(name): name for name in classes}  # as they stand in the file
    found: dict[str, float | None] = {}
    frequencies: dict[str, float] = {}
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:  # a name may hold a line break of any kind
            reader = csv.DictReader(file)
            if not {"class", "announce_from"} <= set(reader.fieldnames or ()):
                raise ConfigError(
                    f"{path}: no columns class and announce_from; procrustean thresholds --output writes such a file"
                )
            for row in reader:
                written, place = row["class"] or "", f"{path}, line {reader.line_num}"  # a row may end before
                name = names.get(written, written)
                if name in found:
                    raise ConfigError(f"{place}: the class {name!r:.80} is given twice; keep one")
                found[name] = _number(row["announce_from"], place)
                if (frequency := _number(row.get("prior"), place)) is not None:
                    frequencies[name] = frequency
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read the thresholds {path} ({error})") from error
    levels = levels_of(found, classes, origin=str(path))
    return levels, prior_of(frequencies, classes, origin=f"{path}, column prior") if frequencies else None


def _number(text: str | None, place: str) -> float | None:
    """A number of a cell, None for an empty one."""
    value = (text or "").strip()
    try:
        return float(value) if value else None
    except ValueError:
        raise ConfigError(f"{place}: {value!r:.80} is no probability") from None


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
