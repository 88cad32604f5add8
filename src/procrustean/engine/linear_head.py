"""A linear head on features, solved to the end: how much of the weights is penalised is chosen in seconds by it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import StratifiedGroupKFold
from torch import Tensor
from torch.nn import functional as F

#: What the penalty is chosen from: |W|^2 / (2 C n) is added to the mean loss of n images.
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
FOLDS = 3
ITERATIONS = 60


def solved(features: Tensor, labels: Tensor, log_prior: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Weights [C, width] and bias [C] of balanced softmax on features [n, copies, width], the bias not penalised.

    Args:
        features: of every copy of the images.
        labels: of the images, [n].
        log_prior: log of the classes' frequencies in training, [C].
        strength: C of the penalty.
    """
    images, copies, width = features.shape
    rows, targets = features.flatten(0, 1), labels.repeat_interleave(copies)
    weight = torch.zeros(len(log_prior), width, device=features.device, requires_grad=True)
    bias = torch.zeros(len(log_prior), device=features.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        fit = F.cross_entropy(rows @ weight.T + bias + log_prior, targets)
        value = fit + weight.square().sum() / (2 * strength * images)
        value.backward()
        return value

    optimizer.step(loss)
    return weight.detach(), bias.detach()


@dataclass(frozen=True)
class Chosen:
    """The penalty of a head, and how likely it makes each image that it was not solved on."""

    strength: float
    losses: Tensor  # [n]
    weights: Tensor  # [n], the same for every class in all; 0 of images that no head could be judged on

    @property
    def loss(self) -> float:
        return float(self.losses @ self.weights)


def chosen_strength(features: Tensor, labels: Tensor, groups: npt.NDArray[np.int64]) -> Chosen:
    """The strength with the best likelihood, every class counting the same, on images whose groups were left out.

    Args:
        features: [n, copies, width].
        labels: [n].
        groups: of images that belong together, [n].
    """
    parts = _folds(labels.cpu().numpy(), groups)
    tried: list[Chosen] = []
    for strength in STRENGTHS if parts else ():
        tried.append(_judged(features, labels, parts, strength))
        if len(tried) > 2 and min(one.loss for one in tried[:-2]) < min(one.loss for one in tried[-2:]):
            break  # twice worse in a row: it has one minimum
    if not tried:
        nothing = torch.zeros(len(labels), device=labels.device)
        return Chosen(STRENGTHS[len(STRENGTHS) // 2], nothing, nothing)
    return min(tried, key=lambda one: one.loss)


def _folds(labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[np.int64]]:
    """Positions of the images that are left out in turn; none where all belong together."""
    folds = min(FOLDS, len(np.unique(groups)), int(np.bincount(labels).max()))
    if folds < 2:
        return ()
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes of fewer images than folds are not left out in each
        return [left_out for _, left_out in splitter.split(labels, labels, groups)]


def _judged(features: Tensor, labels: Tensor, parts: Sequence[npt.NDArray[np.int64]], strength: float) -> Chosen:
    classes = int(labels.max()) + 1
    losses, judged = torch.zeros(len(labels), device=labels.device), torch.zeros_like(labels, dtype=torch.bool)
    for part in parts:
        test = torch.zeros_like(judged)
        test[torch.from_numpy(part).to(labels.device)] = True
        counts = torch.bincount(labels[~test], minlength=classes).float()
        log_prior = (counts / counts.sum()).clamp_min(1e-6).log()
        weight, bias = solved(features[~test], labels[~test], log_prior, strength)
        scores = features[test, 0] @ weight.T + bias
        losses[test] = F.cross_entropy(scores, labels[test], reduction="none")
        judged |= test & (counts > 0)[labels]  # of a class that was left out altogether nothing can be known
    sizes = torch.bincount(labels[judged], minlength=classes).float()
    weights = torch.where(judged, 1 / sizes[labels], 0.0) / int((sizes > 0).sum())
    return Chosen(strength, losses, weights)
