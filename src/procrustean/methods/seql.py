"""Softmax equalization loss (Tan et al. 2020): rare classes are often spared the gradients of others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.count_facts import checked_counts
from procrustean.balance.losses import CrossEntropy, Reduction
from procrustean.balance.objectives import Classify
from procrustean.balance.types import Problem
from procrustean.balance.weights import deferred
from procrustean.base.errors import ConfigError, DataError
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage

#: Where the publication's threshold is not half the share of an average class.
LAM = {"imagenet-lt": 4.3e-4}


class SEQL(CrossEntropy):
    """-log(exp z_y / sum_c w_c exp z_c); w_c is 0 with probability gamma for a rare class c other than y, else 1.

    Args:
        counts: training images per class, index = label.
        gamma: probability that a rare class is left out; 0 is cross-entropy.
        lam: a class is rare if it has less than this share of all images; half the share of an average class,
            0.5 / C, by default. 0 is cross-entropy.
        reduction: "mean" or "none".

    >>> SEQL([70, 27, 3]).rare
    tensor([False, False,  True])
    """

    rare: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        gamma: float = 0.9,
        lam: float | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        if not 0 <= gamma <= 1:
            raise ConfigError(f"gamma = {gamma!r} received; a probability lies in [0, 1]")
        lam = 0.5 / len(counts) if lam is None else lam
        if not 0 <= lam <= 1:
            raise ConfigError(f"lam = {lam!r} received; it is a share of all images, in [0, 1], not a number of them")
        checked = checked_counts(counts)
        rare = [n < lam * sum(checked) for n in checked]
        self.hold("rare", lambda: torch.tensor(rare))
        self.gamma = gamma
        self.draws = {"seql": (len(checked),)}

    def per_sample(self, logits: Tensor, labels: Tensor, uniforms: Tensor | None = None) -> Tensor:
        """`uniforms` [B, C] in [0, 1) decide what is left out; they are drawn from torch's generator if not given."""
        if uniforms is None:
            uniforms = torch.rand(logits.shape, device=logits.device)
        elif uniforms.shape != logits.shape:
            raise DataError(f"uniforms of shape {tuple(uniforms.shape)} for logits of shape {tuple(logits.shape)}")
        others = F.one_hot(labels, logits.shape[1]) == 0
        left_out = (uniforms < self.gamma) & self.rare & others
        return super().per_sample(logits.masked_fill(left_out, -torch.inf), labels)


def seql(problem: Problem, *, gamma: float = 0.9, lam: float | None = None, drw: bool = False) -> Method:
    """Cross-entropy that leaves rare classes out of the denominator of other classes, at random.

    Formula: loss = -log(exp z_y / sum_c w_c exp z_c), w_c = 1 - b_c * [N_c / N < lam] * [c != y],
    b_c ~ Bernoulli(gamma) per sample and class; test: argmax z.

    Args:
        gamma: probability that a rare class is left out; 0 is ERM.
        lam: a class is rare if it has less than this share of all images; default 0.5 / C (0.05 on CIFAR-10, 0.005
            on CIFAR-100), 4.3e-4 on ImageNet-LT. 0 is ERM.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    if lam is None:
        lam = LAM.get(problem.source, 0.5 / problem.classes)
    loss = SEQL(problem.counts, gamma, lam, reduction="none")
    objective = Classify(loss=loss, weight=deferred(problem.counts, drw))
    return Method(
        stages=(Stage(objective),),
        label="SEQL" + "-DRW" * drw,
        own=published(problem.source, ldam_schedule()),
        resolved={"lam": lam},
    )
