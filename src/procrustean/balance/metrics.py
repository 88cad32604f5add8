"""What a classifier got right, from counts alone: every number a result holds about one selection."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import ArrayLike, NDArray

from procrustean.base.errors import DataError

LARGEST_STORED_CONFUSION = 1000  # classes; 8142 x 8142 numbers do not belong in a JSON file
#: Training images of a class: with more than the first it is `many`, with fewer than the second `few`.
MANY_ABOVE, FEW_BELOW = 100, 20
#: Below so many images of a class, what is counted on them says little about it: a single one is more than 3 points.
FEW_TO_JUDGE = 30

#: A fraction; the mean of many may lie outside of 0 and 1 by a rounding.
Share = Annotated[float, Meta(ge=-1e-6, le=1 + 1e-6)]
#: Of images or the like; whole numbers beyond are no floats.
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Metrics(Struct, frozen=True, kw_only=True):
    """What a classifier got right on a set of images: fractions 0..1, None where undefined.

    Balanced accuracy, macro-F1 and the groups average over the classes that have test images; macro-F1 equals
    scikit-learn's `f1_score(average="macro", labels=classes_with_test_images, zero_division=0)`.
    """

    headline: Literal["accuracy", "balanced_accuracy"]  # the number to quote: accuracy where classes have equal tests
    accuracy: Share
    balanced_accuracy: Share
    macro_f1: Share
    top5: Share | None  # the class is among the five largest outputs; only of more than 5 classes
    recall: list[Share | None]  # per class
    precision: list[Share | None]  # likewise; None also without test images: all that is taken for it is wrong then
    groups: dict[str, Share | None]  # mean recall of each group of `class_groups`
    confusion: list[list[Count]] | None  # rows true class, columns predicted class; of up to 1000 classes
    images: Count

    @property
    def headline_value(self) -> float:
        """The number to quote."""
        return self.accuracy if self.headline == "accuracy" else self.balanced_accuracy

    def value(self, name: str) -> float | None:
        """A number by its name: headline, a field, or a group of classes."""
        if name == "headline":
            return self.headline_value
        found: float | None = self.groups[name] if name in self.groups else getattr(self, name)
        return found


def class_groups(train_counts: ArrayLike) -> dict[str, NDArray[np.bool_]]:
    """Which classes are in which group, as one mask over the classes per group.

    `many`, `medium`, `few` follow Kang et al. 2020: more than 100, 20 to 100, fewer than 20 training images.
    `major` and `minor` are relative: a class is major if its count is at least the geometric mean of the
    counts. Equal counts are all major, and step imbalance falls into its two levels. A class without training
    images is few and minor, and is left out of the geometric mean.

    Args:
        train_counts: training images per class, [C].

    >>> class_groups([500, 50, 5])["major"].tolist()
    [True, True, False]
    """
    counts = np.asarray(train_counts, np.int64)
    has_images = counts > 0
    logs = np.log(np.maximum(counts, 1))
    # The slack absorbs the rounding of the mean; counts that truly differ from it are much further away.
    major = has_images & (logs >= logs[has_images].mean() - 1e-12)
    many, few = counts > MANY_ABOVE, counts < FEW_BELOW
    return {"many": many, "medium": ~many & ~few, "few": few, "major": major, "minor": ~major}


def metrics_from_totals(
    correct_per_class: ArrayLike,
    true_per_class: ArrayLike,
    predicted_per_class: ArrayLike,
    train_counts: ArrayLike,
    *,
    top5_correct: int | None = None,
) -> Metrics:
    """The metrics of one test set from three totals per class; it needs no confusion matrix.

    Args:
        correct_per_class: test images of each class predicted as that class, [C].
        true_per_class: test images of each class, [C].
        predicted_per_class: test images predicted as each class, [C].
        train_counts: training images of each class, [C]; they define the groups.
        top5_correct: test images whose class is among the five largest outputs; ignored when C <= 5.

    >>> metrics_from_totals([3, 1], [4, 4], [6, 2], [100, 10]).accuracy
    0.5
    """
    correct, true, predicted = (
        np.asarray(totals, np.int64) for totals in (correct_per_class, true_per_class, predicted_per_class)
    )
    images = int(true.sum())
    if images == 0:
        raise DataError("There are no test images, so nothing can be measured.")
    tested = true > 0
    recall = correct / np.maximum(true, 1)
    precision = correct / np.maximum(predicted, 1)
    f1 = 2 * correct / np.maximum(true + predicted, 1)
    groups = class_groups(train_counts)
    return Metrics(
        headline="accuracy" if (true == true[0]).all() else "balanced_accuracy",
        accuracy=int(correct.sum()) / images,
        balanced_accuracy=float(recall[tested].mean()),
        macro_f1=float(f1[tested].mean()),
        top5=None if top5_correct is None or len(true) <= 5 else int(top5_correct) / images,
        recall=_with_gaps(recall, tested),
        precision=_with_gaps(precision, (predicted > 0) & tested),
        groups={name: _mean(recall[members & tested]) for name, members in groups.items()},
        confusion=None,
        images=images,
    )


def metrics_from_confusion(
    confusion: ArrayLike, train_counts: ArrayLike, *, top5_correct: int | None = None
) -> Metrics:
    """The metrics of one test set from its confusion matrix; see `metrics_from_totals` for what they are.

    Args:
        confusion: number of test images, rows true class, columns predicted class, [C, C]. The result keeps
            it up to 1000 classes.
        train_counts: training images of each class, [C].
        top5_correct: test images whose class is among the five largest outputs; ignored when C <= 5.

    >>> metrics_from_confusion([[3, 1], [3, 1]], [100, 10]).recall
    [0.75, 0.25]
    """
    matrix = np.asarray(confusion, np.int64)
    metrics = metrics_from_totals(
        np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0), train_counts, top5_correct=top5_correct
    )
    kept = matrix.tolist() if len(matrix) <= LARGEST_STORED_CONFUSION else None
    return msgspec.structs.replace(metrics, confusion=kept)


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size else None


def _with_gaps(values: NDArray[np.float64], defined: NDArray[np.bool_]) -> list[float | None]:
    return [float(value) if known else None for value, known in zip(values, defined, strict=True)]
