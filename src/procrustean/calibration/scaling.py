"""From scores to probabilities: a temperature and the prior that the scores stand for, found on held-out images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

Scores = npt.NDArray[np.float64]  # [n, C]
Labels = npt.NDArray[np.int64]  # [n]
Prior = npt.NDArray[np.float64]  # [C], sums to 1

_LOG_SCALES = (-7.0, 7.0)
_TAUS = (-1.0, 2.5)
#: How many held-out images the expectation weighs that the scale is near 1; chosen by experiments/calibration.py.
SCALE_WEIGHT = 1.0


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

    def to_json(self) -> dict[str, Any]:
        return {"temperature": 1 / self.scale, "tau": self.tau, "counts": list(self.counts), "images": self.images}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Calibration:
        return cls(1 / record["temperature"], record["tau"], tuple(record["counts"]), record["images"])


def calibrate(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    counts: Sequence[int],
    *,
    corrected: bool = False,
    scale_weight: float = SCALE_WEIGHT,
) -> Calibration:
    """Find scale and tau by maximum likelihood on held-out images, whatever class frequencies these have.

    The likelihood is that of the held-out frequencies h: softmax(scale * z + tau * log pi + log h - log pi). A normal
    prior on log scale keeps the scale finite where all images are classified correctly.

    Args:
        scores: of the network on the held-out images, [n, C].
        labels: their classes, [n].
        counts: training images per class, [C].
        corrected: whether the loss has taken the class sizes out of the scores; it decides about tau where the
            held-out images cannot, because their classes are all of one size.
        scale_weight: of the prior on log scale, 1 / its variance.
    """
    z, y = np.asarray(scores, np.float64), np.asarray(labels, np.int64)
    frequencies = np.bincount(y, minlength=len(counts))
    seen = np.flatnonzero(frequencies)
    if len(seen) < 2:
        raise DataError(f"held-out images of {len(seen)} class(es) received; calibrating needs at least two classes")
    from scipy.optimize import minimize

    # Classes without held-out images cannot occur among them, and nothing can be learnt about them here.
    position = np.searchsorted(seen, y)
    z, log_h = z[:, seen], np.log(frequencies[seen] / len(y))
    log_pi = np.log(np.asarray(counts, np.float64)[seen] / sum(counts))

    def loss(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        log_scale, tau = parameters
        log_p = log_softmax(math.exp(log_scale) * z + (tau - 1) * log_pi + log_h)
        error = np.exp(log_p)
        error[np.arange(len(y)), position] -= 1
        gradient = np.array(
            [math.exp(log_scale) * (error * z).sum() + scale_weight * log_scale, (error @ log_pi).sum()]
        )
        return log_loss(log_p, position) + scale_weight * log_scale**2 / (2 * len(y)), gradient / len(y)

    found = minimize(loss, np.zeros(2), jac=True, bounds=[_LOG_SCALES, _TAUS], method="L-BFGS-B")
    scale, tau = math.exp(found.x[0]), float(found.x[1])
    if np.ptp(log_pi) == 0:
        tau = uncalibrated(counts, corrected=corrected).tau
    return Calibration(scale, tau, tuple(int(n) for n in counts), len(y))


def uncalibrated(counts: Sequence[int], *, corrected: bool = False, scale: float = 1.0) -> Calibration:
    """Scores as the loss takes them.

    Args:
        counts: training images per class.
        corrected: whether the loss has taken the class sizes out of the scores.
        scale: what it multiplies them by.
    """
    return Calibration(scale, 1.0 if corrected else 0.0, tuple(int(n) for n in counts), 0)


def log_softmax(values: Scores) -> Scores:
    """Over the last axis; entries of -inf stay so."""
    shifted = values - values.max(axis=-1, keepdims=True)
    normed: Scores = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normed


def log_loss(log_probabilities: Scores, labels: Labels) -> float:
    """Mean negative log-likelihood of the true classes."""
    return -math.fsum(log_probabilities[np.arange(len(labels)), labels]) / len(labels)
