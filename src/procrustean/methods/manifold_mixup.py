"""Manifold mixup (Verma et al. 2019): mixup at a layer chosen anew for every batch."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from procrustean.balance.mixing import Mix, beta_quantiles, from_uniform
from procrustean.balance.objectives import Classify, Mixer, Mixture, Reduction
from procrustean.balance.types import Batch, Problem
from procrustean.balance.weights import deferred
from procrustean.base.errors import ConfigError
from procrustean.data.recipes import ldam_schedule, published
from procrustean.methods.method import Method, Stage


class LayerMixing(Mixer):
    """Blends features at one of several layers by one share for the whole batch, and labels by the same."""

    draws: Mapping[str, tuple[int, ...]] = {"manifold_mixup": (2,)}
    quantiles: Tensor

    def __init__(self, alpha: float, layers: tuple[str, ...]) -> None:
        super().__init__()
        self.at = layers
        self.register_buffer("quantiles", beta_quantiles(alpha), persistent=False)

    def forward(self, batch: Batch) -> Mixture:
        uniform, place = batch.u["manifold_mixup"][:1].unbind(1)
        share = from_uniform(self.quantiles, uniform.expand(len(batch.y)))
        chosen = (place * len(self.at)).long()
        # A share of 0 at the layers that are not chosen, instead of control flow: the captured step stays the same.
        mixes = tuple(Mix(batch.partner, batch.inverse, share * (chosen == k)) for k in range(len(self.at)))
        return Mixture(mixes, share)


def manifold_mixup(
    problem: Problem,
    *,
    alpha: float = 2.0,
    layers: str | None = None,
    reduction: Reduction = "weighted_mean",
    drw: bool = False,
) -> Method:
    """Blend features of random pairs at a random layer, and their labels.

    Formula: z~_i = l z_i + (1 - l) z_p(i) at a layer drawn once per batch, l ~ Beta(alpha, alpha) once per batch;
    loss_i = l * CE(x_i, y_i) + (1 - l) * CE(x_i, y_p(i)).

    Args:
        alpha: spread of the share.
        layers: where to mix, separated by commas; default the image and the first two stages of the network.
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        drw: weight each of the two terms by the effective number of its class in the last 20 % of the epochs.
    """
    places = _default_layers(problem) if layers is None else tuple(name.strip() for name in layers.split(","))
    if not all(places) or len(set(places)) < len(places):
        raise ConfigError(f"layers = {layers!r} received; name different layers, separated by commas: input,group2")
    mixer = LayerMixing(alpha, places)
    objective = Classify(mixer=mixer, weight=deferred(problem.counts, drw), reduction=reduction)
    own = published(problem.source, {**ldam_schedule(), "epochs": 400})  # as mixup
    return Method(
        stages=(Stage(objective),),
        label="manifold mixup" + "-DRW" * drw,
        own=own,
        resolved={"layers": ", ".join(places)},
    )


def _default_layers(problem: Problem) -> tuple[str, ...]:
    # The second group of convolutions is the first stage; the one behind it, if the network has one, the second.
    first = problem.second_group
    behind = problem.layers[problem.layers.index(first) + 1 :] if first in problem.layers else ()
    return ("input", first, *behind[:1])
