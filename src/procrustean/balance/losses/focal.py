"""Focal loss (Lin et al. 2017): what is classified well already counts less."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.losses.base import CrossEntropy, Reduction
from procrustean.base.errors import ConfigError, one_of

Form = Literal["softmax", "sigmoid"]


class Focal(CrossEntropy):
    """(1 - p)^gamma * -log p, p the probability of what is true.

    Args:
        gamma: focus; 0 is cross-entropy.
        form: "softmax", one term, p = softmax(z)_y; or "sigmoid", the sum over all classes of a yes-or-no question
            each, p = sigmoid(z_y) for the label and sigmoid(-z_c) for the others. A network trained with the second
            should start with biases of -log(C - 1), see `procrustean.nets.heads.SigmoidHead`.
        reduction: "mean" or "none".

    >>> Focal(gamma=2.0)(torch.zeros(1, 4), torch.tensor([0]))  # (3/4)^2 * log 4
    tensor(0.7798)
    """

    def __init__(self, gamma: float = 1.0, *, form: Form = "softmax", reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        one_of("form", form, ("softmax", "sigmoid"))
        if not 0 <= gamma < math.inf:
            raise ConfigError(f"gamma = {gamma!r} received; the focus has to be 0 (cross-entropy) or more")
        self.gamma, self.form = gamma, form

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.form == "sigmoid":
            # z of the true answer to each question: p = sigmoid(z), 1 - p = sigmoid(-z).
            true = logits * (2 * F.one_hot(labels, logits.shape[1]) - 1)
            return -((self.gamma * F.logsigmoid(-true)).exp() * F.logsigmoid(true)).sum(1)
        losses = super().per_sample(logits, labels)
        # 1 - exp(-ce) by expm1: for a well-classified sample the difference would round to 0, with a gradient
        # of NaN for gamma < 1.
        return (-torch.expm1(-losses)).clamp_min(torch.finfo(losses.dtype).tiny) ** self.gamma * losses
