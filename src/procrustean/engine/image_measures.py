"""What is measured image by image at the end of a run on a user's own images: how sure its headline is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from procrustean.balance.interval import RESAMPLES, bootstrap_interval
from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.balance.metrics import Metrics
from procrustean.data.imageset import NO_TEST, ImageSet
from procrustean.data.sources import is_named
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.image_stores import ImageStores
from procrustean.engine.prepared import Prepared
from procrustean.engine.probabilities import Calibration, uncalibrated
from procrustean.engine.stored_calibration import scores_of
from procrustean.nets.classifier import Classifier
from procrustean.records.run_record import CalibrationRecord, ImageMeasures


@dataclass(frozen=True)
class Answers:
    """What a network says of each image of a set."""

    images: ImageSet
    log_probabilities: npt.NDArray[np.float64]  # [N, C]

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.log_probabilities.argmax(axis=1))

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.answers == self.images.labels)


def is_measured(prepared: Prepared) -> bool:
    """Whether the images are a user's own, and some of them are for tests."""
    return not is_named(prepared.config.source) and not prepared.splits.note.startswith(NO_TEST)


def answers_on(
    prepared: Prepared,
    net: Classifier,
    images: ImageSet,
    found: CalibrationRecord | None,
    stores: ImageStores | FeatureStores | None = None,
) -> Answers:
    """The answers of a network with their probabilities, as `predict` gives them without other class frequencies."""
    scores, _ = scores_of(prepared, net, images, stores)
    return Answers(images, _calibration(prepared, found).log_probabilities(scores))


def _calibration(prepared: Prepared, found: CalibrationRecord | None) -> Calibration:
    if found is not None:
        return Calibration(1 / found.temperature, found.tau, tuple(found.counts), found.images)
    objective = prepared.method.stages[-1].objective
    counts = [int(n) for n in prepared.data.counts]
    return uncalibrated(counts, corrected=shifts_scores(objective), scale=scale_of_scores(objective))


def image_measures(test: Answers, metrics: Metrics, cautions: Sequence[str]) -> ImageMeasures:
    """What the answers on the test images tell of the headline.

    Args:
        test: the answers.
        metrics: of the same network on the same images.
        cautions: why the headline may be too good.
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
    )
