"""What is measured image by image at the end of a run on a user's own images: how sure its headline is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

from procrustean.balance.interval import RESAMPLES, bootstrap_interval
from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.balance.metrics import Metrics
from procrustean.data.imageset import ImageSet, positions_by_class
from procrustean.data.sources import is_named
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.image_stores import ImageStores
from procrustean.engine.prepared import Prepared
from procrustean.engine.probabilities import Calibration, uncalibrated
from procrustean.engine.stored_calibration import scores_of
from procrustean.nets.classifier import Classifier
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import CalibrationRecord, ImageMeasures

#: Training images that are looked at again.
MOST_TRAINED = 1000
PREDICTIONS = "predictions.csv"


@dataclass(frozen=True)
class Answers:
    """What a network says of each image of a set."""

    split: str
    images: ImageSet
    log_probabilities: npt.NDArray[np.float64]  # [N, C]

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.log_probabilities.argmax(axis=1))

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.answers == self.images.labels)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """A line of predictions.csv for each image."""
        images, classes, answers = self.images, self.images.classes, self.answers
        for row, (label, answer, logs) in enumerate(zip(images.labels, answers, self.log_probabilities, strict=True)):
            yield (
                self.split,
                images.names[row] if images.names else f"image {row}",
                classes[label],
                classes[answer],
                f"{math.exp(logs[answer]):.4f}",
                f"{-logs[label]:.4f}",
                images.groups[row] if images.groups else "",
            )


def is_measured(prepared: Prepared) -> bool:
    """Whether the images are a user's own, and some of them are for tests."""
    return not is_named(prepared.config.source) and prepared.splits.has_test


def write_predictions(directory: RunFolder, sets: Iterable[Answers]) -> None:
    """Write what a network says of each image into the folder of its run."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("split", "file", "label", "answer", "probability", "loss", "group"))
    for answers in sets:
        table.writerows(answers.rows())
    directory.write(PREDICTIONS, text.getvalue().encode("utf-8", "surrogateescape"))


def answers_on(
    prepared: Prepared,
    net: Classifier,
    split: str,
    found: CalibrationRecord | None,
    stores: ImageStores | FeatureStores | None = None,
) -> Answers | None:
    """The answers of a network on its "test" or "held_out" images, with probabilities as `predict` gives them."""
    images: ImageSet | None = getattr(prepared.data, split)
    if images is None:
        return None
    scores, _ = scores_of(prepared, net, images, stores)
    return Answers(split, images, _calibration(prepared, found).log_probabilities(scores))


def _calibration(prepared: Prepared, found: CalibrationRecord | None) -> Calibration:
    if found is not None:
        return Calibration(1 / found.temperature, found.tau, tuple(found.counts), found.images)
    objective = prepared.method.stages[-1].objective
    counts = [int(n) for n in prepared.data.counts]
    return uncalibrated(counts, corrected=shifts_scores(objective), scale=scale_of_scores(objective))


def training_accuracy(prepared: Prepared, net: Classifier, stores: ImageStores | FeatureStores) -> float:
    """Balanced accuracy on training images as they are, of many on some of each class."""
    train = prepared.data.train
    each = max(1, MOST_TRAINED // len(train.classes))
    positions = positions_by_class(train.labels, len(train.classes))
    chosen = np.concatenate([own[:: -(-len(own) // each)] for own in positions])
    scores, labels = scores_of(prepared, net, train.subset(chosen), stores)
    right = scores.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def image_measures(
    test: Answers, metrics: Metrics, cautions: Sequence[str], trained: float | None = None
) -> ImageMeasures:
    """What the answers on the test images tell of the headline.

    Args:
        test: the answers.
        metrics: of the same network on the same images.
        cautions: why the headline may be too good.
        trained: balanced accuracy on training images.
    """
    images = test.images
    groups = np.unique(images.groups, return_inverse=True)[1] if images.groups else None
    tested = np.where(images.counts > 0, images.counts, np.iinfo(np.int64).max)
    fewest = len(tested) - 1 - int(tested[::-1].argmin())  # of several the one with the fewest training images
    return ImageMeasures(
        interval=bootstrap_interval(test.right, images.labels, groups, headline=metrics.headline),
        resamples=RESAMPLES,
        groups=None if groups is None else int(groups.max()) + 1,
        fewest_tested=images.classes[fewest],
        fewest_images=int(images.counts[fewest]),
        cautions=list(cautions),
        training_accuracy=trained,
        auroc=_by_class(roc_auc_score, test),
        average_precision=_by_class(average_precision_score, test),
    )


def _by_class(measure: Callable[..., float], test: Answers) -> list[float | None]:
    """A measure of how well the probability of each class tells its images from the others; None where it has none."""
    labels, counts = test.images.labels, test.images.counts
    return [
        float(measure(labels == label, test.log_probabilities[:, label])) if 0 < count < len(labels) else None
        for label, count in enumerate(counts)
    ]
