"""A linear head on features, solved to the end: how much of the weights is penalised is chosen in seconds by it."""

from __future__ import annotations

from collections.abc import Sequence

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


def chosen_strength(features: Tensor, labels: Tensor, groups: npt.NDArray[np.int64]) -> float:
    """The strength with the best likelihood, every class counting the same, on images whose groups were left out.

    Args:
        features: [n, copies, width].
        labels: [n].
        groups: of images that belong together, [n].
    """
    classes = int(labels.max()) + 1
    parts = _folds(labels.cpu().numpy(), groups)
    best, losses = STRENGTHS[len(STRENGTHS) // 2], list[float]()
    for strength in STRENGTHS if parts else ():
        losses.append(float(np.mean([_left_out_loss(features, labels, classes, part, strength) for part in parts])))
        if losses[-1] == min(losses):
            best = strength
        elif min(losses) < min(losses[-2:]):  # twice worse in a row: it has one minimum
            break
    return best


def _folds(labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[np.int64]]:
    """Positions of the images that are left out in turn; none where a class is too small for two turns."""
    of_a_class = [len(np.unique(groups[labels == label])) for label in np.unique(labels)]
    folds = min(FOLDS, *of_a_class, len(labels)) if len(of_a_class) > 1 else 1
    if folds < 2:
        return ()
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
    return [left_out for _, left_out in splitter.split(labels, labels, groups)]


def _left_out_loss(
    features: Tensor, labels: Tensor, classes: int, left_out: npt.NDArray[np.int64], strength: float
) -> float:
    test = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    test[torch.from_numpy(left_out).to(labels.device)] = True
    counts = torch.bincount(labels[~test], minlength=classes).float()
    weight, bias = solved(features[~test], labels[~test], (counts / counts.sum()).clamp_min(1e-6).log(), strength)
    scores = features[test, 0] @ weight.T + bias
    per_class = 1 / torch.bincount(labels[test], minlength=classes).float()
    weights = per_class[labels[test]]
    return float((F.cross_entropy(scores, labels[test], reduction="none") * weights).sum() / weights.sum())
