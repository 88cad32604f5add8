"""From which probability on a class may be announced, for a wanted precision or recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError

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
