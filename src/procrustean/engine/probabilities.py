"""From scores to probabilities: a temperature and the prior that the scores stand for, found on held-out images; priors
by name, or from a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError, DataError, did_you_mean
from procrustean.base.escaping import spreadsheet
from procrustean.records.run_record import CalibrationRecord

Scores = npt.NDArray[np.float64]  # [n, C]
Labels = npt.NDArray[np.int64]  # [n]
Prior = npt.NDArray[np.float64]  # [C], sums to 1

_LOG_SCALES = (-7.0, 7.0)
_TAUS = (-1.0, 2.5)
#: How much it weighs against the held-out images that the scale is near that of the loss, and tau near `expected_tau`:
#: 1 / variances, chosen by experiments/calibration.py.
SCALE_WEIGHT = 1.0
TAU_WEIGHT = 1.0


@dataclass(frozen=True)
class Calibration:
    """How scores z become probabilities.

    With pi the frequencies of the training images, log p(c | x) = scale * z_c + tau * log pi_c + const is the posterior
    where classes are as frequent as in training. Plain training has tau near 0; a method that corrects for the class
    sizes has taken up to all of the prior out of its scores, and tau, up to 1, puts it back. For other frequencies q,
    log q_c - log pi_c is added.
    """

    scale: float  # 1 / temperature
    tau: float
    counts: tuple[int, ...]  # training images per class
    images: int  # held-out images that the two numbers were found on; 0 if there were none
    tau_error: float | None = None  # standard deviation of what these leave open about tau, where it is known
    held_out: tuple[int, ...] = ()  # those images per class, where it is known

    @property
    def log_training_prior(self) -> Prior:
        counts = np.asarray(self.counts, np.float64)
        return np.asarray(np.log(counts / counts.sum()))

    def shift(self, prior: Prior | None) -> Prior:
        """What is added to the scaled scores, up to a constant; nothing for the prior that the scores stand for."""
        if prior is None:
            return np.zeros(len(self.counts))
        with np.errstate(divide="ignore"):  # a class that does not occur gets probability 0
            return np.log(prior) + (self.tau - 1) * self.log_training_prior

    def log_probabilities(self, scores: npt.ArrayLike, prior: Prior | None = None) -> Scores:
        """log p(c | x), [n, C].

        Args:
            scores: of the network, [n, C].
            prior: class frequencies where the images come from; None for those that the scores stand for, with which
                the largest score is the most probable class.
        """
        return log_softmax(self.scale * np.asarray(scores, np.float64) + self.shift(prior))

    @property
    def own_prior(self) -> Prior:
        """The class frequencies that the scores stand for: pi^(1 - tau), scaled to sum to 1."""
        own = np.exp((1 - self.tau) * (self.log_training_prior - self.log_training_prior.max()))
        return np.asarray(own / own.sum())

    def frequencies(self, prior: Prior | None) -> Prior:
        """The class frequencies that `log_probabilities` with this prior are for."""
        return self.own_prior if prior is None else prior

    def record(self, test: Mapping[str, float]) -> CalibrationRecord:
        """What the record of a run keeps of it.

        Args:
            test: how good the probabilities of the test images are.
        """
        return CalibrationRecord(
            temperature=1 / self.scale,
            tau=self.tau,
            counts=list(self.counts),
            images=self.images,
            test=dict(test),
            tau_error=self.tau_error,
            held_out=list(self.held_out),
        )

    @classmethod
    def of(cls, kept: CalibrationRecord) -> Calibration:
        """The calibration that a record has kept."""
        counts, held_out = tuple(kept.counts), tuple(kept.held_out)
        return cls(1 / kept.temperature, kept.tau, counts, kept.images, kept.tau_error, held_out)


def calibrate(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    counts: Sequence[int],
    *,
    corrected: bool = False,
    scale: float = 1.0,
    scale_weight: float = SCALE_WEIGHT,
    tau_weight: float = TAU_WEIGHT,
) -> Calibration:
    """Find scale and tau on held-out images, whatever class frequencies these have.

    The likelihood is that of the held-out frequencies h: softmax(scale * z + tau * log pi + log h - log pi). Normal
    priors on log scale and tau keep the first finite where all images are classified correctly, and the second where it
    belongs where the classes that are held out have nearly one size, so that their images say nothing about it.

    Args:
        scores: of the network on the held-out images, [n, C].
        labels: their classes, [n].
        counts: training images per class, [C].
        corrected: whether the loss has taken the class sizes out of the scores.
        scale: what the loss multiplies the scores by.
        scale_weight, tau_weight: of the priors, 1 / their variances.
    """
    z, y = scale * np.asarray(scores, np.float64), np.asarray(labels, np.int64)
    frequencies = np.bincount(y, minlength=len(counts))
    seen = np.flatnonzero(frequencies)
    if len(seen) < 2:
        raise DataError(f"held-out images of {len(seen)} class(es) received; calibrating needs at least two classes")
    from scipy.optimize import minimize

    # Classes without held-out images cannot occur among them, and nothing can be learnt about them here.
    position = np.searchsorted(seen, y)
    z, log_h = z[:, seen], np.log(frequencies[seen] / len(y))
    log_pi = np.log(np.asarray(counts, np.float64)[seen] / sum(counts))
    weights, expected = np.array([scale_weight, tau_weight]), np.array([0.0, expected_tau(corrected)])

    def posterior(parameters: Prior) -> Scores:
        log_scale, tau = parameters
        return log_softmax(math.exp(log_scale) * z + (tau - 1) * log_pi + log_h)

    def loss(parameters: Prior) -> tuple[float, Prior]:
        log_p, off = posterior(parameters), parameters - expected
        error = np.exp(log_p)
        error[np.arange(len(y)), position] -= 1
        gradient = np.array([math.exp(parameters[0]) * (error * z).sum(), (error @ log_pi).sum()])
        penalty = float(weights @ off**2) / (2 * len(y))
        return log_loss(log_p, position) + penalty, (gradient + weights * off) / len(y)

    found = minimize(loss, expected, jac=True, bounds=[_LOG_SCALES, _TAUS], method="L-BFGS-B").x
    information = _information(np.exp(posterior(found)), math.exp(found[0]) * z, log_pi) + np.diag(weights)
    return Calibration(
        scale * math.exp(found[0]),
        float(found[1]),
        tuple(int(n) for n in counts),
        len(y),
        tau_error=math.sqrt(np.linalg.inv(information)[1, 1]),
        held_out=tuple(int(n) for n in frequencies),
    )


def expected_tau(corrected: bool) -> float:
    """Of a method, before any image is looked at: half-way between plain training and those that correct by class
    weights or samplers, unless the loss itself has taken the class sizes out of the scores."""
    return 1.0 if corrected else 0.5


def _information(probabilities: Scores, scaled: Scores, log_pi: Prior) -> Scores:
    """Fisher information of log scale and tau, [2, 2]: the covariances of what the two multiply, summed over images."""
    moved = np.stack([scaled, np.broadcast_to(log_pi, scaled.shape)])
    moved -= (probabilities * moved).sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("nc,anc,bnc->ab", probabilities, moved, moved))


def uncalibrated(counts: Sequence[int], *, corrected: bool = False, scale: float = 1.0) -> Calibration:
    """Scores as the loss takes them.

    Args:
        counts: training images per class.
        corrected: whether the loss has taken the class sizes out of the scores.
        scale: what it multiplies them by.
    """
    return Calibration(scale, 1.0 if corrected else 0.0, tuple(int(n) for n in counts), 0)


def class_frequencies(labels: Labels, classes: int) -> Prior:
    """Shares of the classes among images, [C]."""
    return np.asarray(np.bincount(labels, minlength=classes) / len(labels))


def log_softmax(values: Scores) -> Scores:
    """Over the last axis; entries of -inf stay so."""
    shifted = values - values.max(axis=-1, keepdims=True)
    normed: Scores = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normed


def log_loss(log_probabilities: Scores, labels: Labels) -> float:
    """Mean negative log-likelihood of the true classes."""
    return -math.fsum(log_probabilities[np.arange(len(labels)), labels]) / len(labels)


#: Of confidence, of equal width from 0 to 1.
BINS = 15


def calibration_error(
    probabilities: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    """Expected calibration error: |accuracy - confidence| of the predicted class, averaged over bins of confidence.

    Args:
        probabilities: [n, C].
        labels: true classes, [n].
        weights: of the images, [n]; equal by default.

    >>> calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1])
    0.4
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels, np.int64)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    inside = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(inside, weights=w * (right - confidence), minlength=BINS)
    return float(round(np.abs(gaps).sum() / w.sum(), 12))


def balancing_weights(labels: npt.ArrayLike, classes: int) -> npt.NDArray[np.float64]:
    """Weights with which every class that occurs counts the same, [n]."""
    y = np.asarray(labels, np.int64)
    return np.asarray(1 / np.bincount(y, minlength=classes)[y])


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
