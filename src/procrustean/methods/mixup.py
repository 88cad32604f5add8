"""mixup (Zhang et al. 2018): images are blended in pairs, and their labels with them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from procrustean.balance.mixing import Mix, beta_quantiles, from_uniform
from procrustean.balance.objectives import Classify, Mixer, Mixture, Reduction
from procrustean.balance.types import Batch, Problem
from procrustean.balance.weights import deferred
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage


class ImageMixing(Mixer):
    """Blends each image with its partner's by one share for the whole batch; the labels by a share of their own."""

    at = ("input",)
    draws: Mapping[str, tuple[int, ...]] = {"mixup": ()}
    quantiles: Tensor

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.register_buffer("quantiles", beta_quantiles(alpha), persistent=False)

    def forward(self, batch: Batch) -> Mixture:
        share = from_uniform(self.quantiles, batch.u["mixup"][:1].expand(len(batch.y)))
        labels = self.label_share(share, batch.y, batch.y[batch.partner])
        return Mixture((Mix(batch.partner, batch.inverse, share),), labels)

    def label_share(self, share: Tensor, own: Tensor, other: Tensor) -> Tensor:
        """The partner's share of the label, [B], for its share of the image and the two classes of each pair."""
        return share


def mixup(problem: Problem, *, alpha: float = 1.0, reduction: Reduction = "weighted_mean", drw: bool = False) -> Method:
    """Blend images and labels of random pairs.

    Formula: x~_i = l x_i + (1 - l) x_p(i), l ~ Beta(alpha, alpha) once per batch, p a permutation of the batch;
    loss_i = l * CE(x~_i, y_i) + (1 - l) * CE(x~_i, y_p(i)).

    Args:
        alpha: spread of the share; 1 is uniform, towards 0 hardly anything is mixed.
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        drw: weight each of the two terms by the effective number of its class in the last 20 % of the epochs.
    """
    objective = Classify(mixer=ImageMixing(alpha), weight=deferred(problem.counts, drw), reduction=reduction)
    # Long-tailed CIFAR needs twice the epochs of cross-entropy (Zhang et al., Bag of tricks, AAAI 2021).
    own = published(problem.source, {**ldam_schedule(), "epochs": 400})
    return Method(stages=(Stage(objective),), label="mixup" + "-DRW" * drw, own=own)
