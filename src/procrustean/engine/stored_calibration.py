"""What a finished run keeps about its probabilities: their calibration, how good it is, and the held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.base.errors import DataError, RunError
from procrustean.data.imageset import ImageSet
from procrustean.engine.evaluation import scored
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.image_stores import ImageStores
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.probabilities import (
    Calibration,
    Labels,
    Scores,
    balancing_weights,
    calibrate,
    calibration_error,
    class_frequencies,
    log_loss,
    uncalibrated,
)
from procrustean.nets.classifier import Classifier
from procrustean.records.run_folder import TRIAL_SCORES, RunFolder
from procrustean.records.run_record import CalibrationRecord

HELD_OUT_SCORES = "held_out_scores.safetensors"
#: More numbers than this are not kept: a table of thresholds for thousands of classes serves nobody.
MOST_SCORES = 20_000_000


@dataclass(frozen=True)
class TrialScores:
    """Scores of held-out images by a network of the same way, which was trained without them."""

    scores: Scores
    labels: Labels
    classes: tuple[str, ...]  # of the columns and labels

    def ordered(self, classes: Sequence[str]) -> TrialScores:
        """The same with the classes in another order."""
        order = [self.classes.index(name) for name in classes]
        return TrialScores(self.scores[:, order], np.argsort(order)[self.labels], tuple(classes))

    def keep(self, directory: RunFolder, classes: Sequence[str]) -> None:
        """Put them into the folder of a run, with its classes in its order."""
        own = self.ordered(classes)
        _save_scores(directory, own.scores, own.labels, TRIAL_SCORES)


def keep_calibration(
    prepared: Prepared, net: Classifier, directory: RunFolder, stores: ImageStores | FeatureStores
) -> CalibrationRecord | None:
    """Calibrate on the held-out images and judge on the test images; None if there are none, or of one class only.

    A run on all images, whose way was tried before, is calibrated by the scores of the trial.

    Args:
        prepared: the run.
        net: its trained network.
        directory: where it is kept.
        stores: of its images, while it trained.
    """
    held_out = prepared.data.held_out
    counts = [int(n) for n in prepared.data.counts]
    if held_out is not None:
        scores, labels = scores_of(prepared, net, held_out, stores)
    elif directory.file(TRIAL_SCORES).exists():
        scores, labels = _kept_scores(directory, TRIAL_SCORES)
    else:
        return None
    objective = prepared.method.stages[-1].objective
    before = uncalibrated(counts, scale=scale_of_scores(objective))
    try:
        found = calibrate(scores, labels, counts, corrected=shifts_scores(objective), scale=before.scale)
    except DataError:
        return None
    if scores.size <= MOST_SCORES:
        _save_scores(directory, scores, labels)
    test_scores, test_labels = scores_of(prepared, net, prepared.data.test, stores)
    frequencies = class_frequencies(labels, len(counts))
    return found.record(judged(before, found, test_scores, test_labels, frequencies))


def judged(
    before: Calibration, found: Calibration, scores: Scores, labels: Labels, frequencies: Scores
) -> dict[str, float]:
    """Calibration errors and log loss on images: before calibration, and after it for several class frequencies.

    `ece` is for those expected, `ece_default` for those that the scores stand for, as probabilities are given unless
    other frequencies are asked for, and `ece_balanced` for equal ones, with images weighted accordingly.

    Args:
        before: the scores as the loss takes them.
        found: the calibration.
        scores, labels: of the images.
        frequencies: expected of the classes among them.
    """
    classes = len(found.counts)
    plain = before.log_probabilities(scores)
    scaled = found.log_probabilities(scores, frequencies)
    even = found.log_probabilities(scores, np.full(classes, 1 / classes))
    weights = balancing_weights(labels, classes)
    return {
        "ece_before": calibration_error(np.exp(plain), labels),
        "ece": calibration_error(np.exp(scaled), labels),
        "ece_default": calibration_error(np.exp(found.log_probabilities(scores)), labels),
        "ece_balanced_before": calibration_error(np.exp(plain), labels, weights),
        "ece_balanced": calibration_error(np.exp(even), labels, weights),
        "log_loss_before": log_loss(plain, labels),
        "log_loss": log_loss(np.maximum(scaled, -700), labels),  # a class never held out has probability 0
    }


def held_out_scores(directory: RunFolder) -> tuple[Scores, Labels]:
    """Scores and labels of a run's held-out images, as they were kept."""
    if not directory.file(HELD_OUT_SCORES).exists():
        raise RunError(
            f"{directory.path} has kept no scores of held-out images: it was trained with none of at least two "
            "classes, or with too many classes; train with --hold-out 0.15"
        )
    return _kept_scores(directory, HELD_OUT_SCORES)


def _kept_scores(directory: RunFolder, name: str) -> tuple[Scores, Labels]:
    path = directory.file(name)
    try:
        kept = load_file(path)
        scores, labels = kept["scores"].astype(np.float64), kept["labels"].astype(np.int64)
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(f"{path} is damaged ({error}); train the run again") from error
    classes = scores.shape[-1] if scores.ndim == 2 else 0
    if labels.shape != scores.shape[:1] or not len(labels) or labels.min() < 0 or labels.max() >= classes:
        raise RunError(f"{path} is damaged (scores {scores.shape}, labels {labels.shape}); train the run again")
    return scores, labels


def scores_of(
    prepared: Prepared, net: Classifier, images: ImageSet, stores: ImageStores | FeatureStores | None = None
) -> tuple[Scores, Labels]:
    """Scores and labels of a set of images, on the host; `stores` are those of its training, while it goes on."""
    batches = scored(prepared, net, images, stores)
    scores = np.concatenate([part.double().cpu().numpy() for part, _ in batches])
    return scores, np.concatenate([part.cpu().numpy() for _, part in batches])


def _save_scores(directory: RunFolder, scores: Scores, labels: Labels, name: str = HELD_OUT_SCORES) -> None:
    import torch

    tensors = {"scores": torch.from_numpy(scores).float(), "labels": torch.from_numpy(labels)}
    directory.save_weights(name, tensors)
