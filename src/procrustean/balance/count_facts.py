"""Facts about class counts: checks, geometric mean and spread, the kind of imbalance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate
from typing import Any, Literal, SupportsFloat, SupportsInt, cast

from procrustean.base.errors import DataError

Kind = Literal["long_tailed", "step"]
Spread = Literal["geometric", "arithmetic", "log"]
#: Whole numbers of any library. `int` is one of them, but LightningCLI, which reads annotations, knows it only by name.
Counts = Iterable[int | SupportsInt]

#: Share of the variance of log counts that two levels must explain for the counts to be called a step.
STEP_EXPLAINED = 0.9
#: Below this ratio of largest to smallest class the counts are near equal and never called a step.
STEP_RATIO = 1.5


def checked_counts(counts: Counts | Mapping[int, SupportsInt]) -> tuple[int, ...]:
    """The counts as a tuple of positive integers, or a DataError that names the class at fault.

    A mapping, such as a Counter of the labels, has the class indices as its keys, and so has a series of pandas, whose
    `value_counts` begins with the largest class.

    >>> checked_counts([5, 3]), checked_counts({1: 3, 0: 5})
    ((5, 3), (5, 3))
    """
    if getattr(counts, "ndim", None) == 1 and hasattr(counts, "to_dict"):  # a series of pandas
        by_class = cast("Mapping[int, SupportsInt]", counts.to_dict())
        if len(by_class) < len(cast("Sequence[Any]", counts)):
            raise DataError("a series of counts received whose index has a class twice; give one count per class")
        counts = by_class
    if isinstance(counts, Mapping):
        if set(counts) != set(range(len(counts))):
            raise DataError(
                f"counts by {', '.join(map(repr, list(counts)[:5]))}{', ...' * (len(counts) > 5)} received; a mapping "
                f"needs the class indices 0 to {len(counts) - 1} as keys; or give a list in the order of the classes"
            )
        counts = [counts[index] for index in range(len(counts))]
    # A set has no order, and equal counts once.
    if isinstance(counts, str | bytes | Set) or not isinstance(counts, Iterable) or getattr(counts, "ndim", 1) == 0:
        raise DataError(
            f"counts of type {type(counts).__name__} received; give the training images of each class in the order of "
            "the labels, as class_counts(dataset) returns them"
        )
    values: list[int] = []
    for index, value in enumerate(counts):
        if not isinstance(value, SupportsFloat) or not float(value).is_integer():
            raise DataError(f"class {index} has a count of {value!r}; give one whole number of images per class")
        values.append(int(value))
    if len(values) < 2:
        raise DataError(f"counts for {len(values)} class(es) received; imbalance needs at least two classes")
    empty = [index for index, value in enumerate(values) if value < 1]
    if empty:
        shown = f"{empty[:10]}{f' and {len(empty) - 10} more' * (len(empty) > 10)}"
        raise DataError(
            f"classes {shown} have no images; remove these classes or re-index the labels so that every class has at "
            "least one image. If these are labels and no counts, give class_counts(labels)"
        )
    return tuple(values)


def geometric_mean(counts: Sequence[int]) -> float:
    """exp of the mean logarithm: mu of Eq. 7.

    >>> round(geometric_mean([5000, 50]), 6)
    500.0
    """
    return math.exp(math.fsum(math.log(n) for n in counts) / len(counts))


def spread(counts: Sequence[int], std: Spread = "geometric") -> float:
    """gamma of Eq. 7: the geometric standard deviation, a factor, its logarithm, or the arithmetic one, in images.

    All are population values (divided by the number of classes). The paper does not say which of them it
    means; docs/design.md gives the evidence for the geometric reading.
    """
    values = [float(n) for n in counts] if std == "arithmetic" else [math.log(n) for n in counts]
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    return math.exp(deviation) if std == "geometric" else deviation


def two_level_share(counts: Sequence[int]) -> float:
    """Share of the variance of the log counts that the best split into two levels explains, 0 to 1.

    1 for two classes and for an exact step, about 0.76 for an exponential tail.
    """
    logs = sorted(math.log(n) for n in counts)
    total = len(logs)
    mean = math.fsum(logs) / total
    variance = math.fsum((v - mean) ** 2 for v in logs)
    if variance <= 1e-12:
        return 0.0
    sums = list(accumulate(v - mean for v in logs))[:-1]
    # k centred values sum to s on the left, the others to -s: the levels explain s^2/k + s^2/(total-k).
    best = max(s * s / k + s * s / (total - k) for k, s in enumerate(sums, start=1))
    return best / variance


def imbalance_kind(counts: Sequence[int]) -> Kind:
    """Long-tailed or step, from the counts alone.

    A step has two levels of class sizes: the best split of the sorted log counts into two groups explains at
    least 90 % of their variance, and the largest class has at least 1.5 times the images of the smallest.
    Everything else is long-tailed. Two classes are a step if one is that much larger.

    >>> imbalance_kind([5000, 5000, 50, 50]), imbalance_kind([5000, 1077, 232, 50])
    ('step', 'long_tailed')
    """
    if max(counts) < STEP_RATIO * min(counts):
        return "long_tailed"
    return "step" if two_level_share(counts) >= STEP_EXPLAINED else "long_tailed"


def kind_for_methods(made: str, counts: Sequence[int]) -> Kind:
    """The kind of imbalance that was made, or the one of counts that are as they were found ("natural").

    >>> kind_for_methods("natural", [50, 50, 5, 5]), kind_for_methods("long_tailed", [50, 5])
    ('step', 'long_tailed')
    """
    return imbalance_kind(counts) if made == "natural" else cast(Kind, made)
