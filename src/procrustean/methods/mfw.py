"""Major Feature Weakening (Ye, Zhan, Chao 2021): features of large classes are mixed, labels are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from procrustean.balance.count_facts import Spread
from procrustean.balance.metrics import class_groups
from procrustean.balance.mfw_module import DEFAULT_ALPHA, DEFAULT_BETA, MFW, strength_of
from procrustean.balance.mixing import Mix
from procrustean.balance.objectives import Classify, Mixer, Mixture, Reduction
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.balance.weights import DeferredWeights, deferred
from procrustean.base.errors import ConfigError
from procrustean.methods.method import Method, Stage

#: Best alpha of the paper's table where it differs from the general default: long-tailed CIFAR-100.
ALPHA = {("cifar100", "long_tailed"): 0.2}


def usual_value(option: str, source: str, kind: str) -> float | None:
    """The alpha or beta that data get by default; None where their counts decide, and for other options."""
    usual: dict[str, Mapping[Any, float]] = {"alpha": DEFAULT_ALPHA, "beta": DEFAULT_BETA}
    if option == "alpha" and (source, kind) in ALPHA:
        return ALPHA[source, kind]
    return usual.get(option, {}).get(kind)


#: Which standard deviation Eq. 7 means, and its beta.
StrengthSetting = tuple[Spread, float]

#: Strengths that differ by less train the same networks as far as anyone can measure: tables share the run.
SAME_RUN = 1e-4
#: Strengths that differ by less are one point of a curve along beta. A curve asks less of them than a table: of
#: CIFAR-10 at ratio 100 every beta from 0.01 to 5 is then one run under the geometric standard deviation.
SAME_POINT = 5e-3


class Weakening(Mixer):
    """MFW on the trainer's own random numbers."""

    draws: Mapping[str, tuple[int, ...]] = {"mfw": ()}

    def __init__(self, mfw: MFW, layer: str) -> None:
        super().__init__()
        self.mfw = mfw
        self.at = (layer,)

    def forward(self, batch: Batch) -> Mixture:
        u = batch.u["mfw"] if self.mfw.draw == "sample" else batch.u["mfw"][:1]
        share = self.mfw.share(batch.y, u)
        return Mixture((Mix(batch.partner, batch.inverse, share),), None)


class WeakenUntil(Classify):
    """Mixes until the deferred weights set in, and leaves the features alone from then on."""

    def __init__(self, mixer: Weakening, weight: DeferredWeights, reduction: Reduction) -> None:
        super().__init__(mixer=mixer, weight=weight, reduction=reduction)
        self.weakening, self.deferred = mixer, weight

    def mixture(self, batch: Batch, clock: Clock) -> Mixture:
        mixture: Mixture = self.weakening(batch)
        # A factor on the device, not an `if`, so that a captured step stays valid.
        factor = torch.where(self.deferred.set_in(clock), 0.0, 1.0)
        return Mixture(tuple(mix._replace(weight=mix.weight * factor) for mix in mixture.mixes), None)


def mfw(
    problem: Problem,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    std: Spread = "geometric",
    draw: Literal["sample", "batch"] = "sample",
    layer: str | None = None,
    major_strength: float | None = None,
    reduction: Reduction = "weighted_mean",
    keep_mixing: bool = True,
    drw: bool = False,
) -> Method:
    """Weaken the features of major classes to equalise the training progress.

    Formula: z~_i = (1 - l_i) z_i + l_i z_p(i), l_i = s(N_yi) * Beta(alpha, alpha), label y_i kept;
    s(N_c) = 0.5 * sigmoid((N_c - mu) / (beta * gamma)), mu the geometric mean of the N_c, gamma their
    standard deviation.

    Args:
        alpha: spread of the mixing share; default 1 for long-tailed (0.2 on CIFAR-100), 5 for step.
        beta: softness of s; default 2 for long-tailed, 0.01 for step.
        std: gamma of s: geometric or arithmetic standard deviation, or log for N_c, mu and gamma in logarithms.
        draw: one share per sample or one per batch.
        layer: where to mix; default the second group of convolutions, as in the paper.
        major_strength: s for classes of at least the geometric mean of the counts, 0 for the others, instead
            of the formula (the paper's toy experiment uses 0.5).
        reduction: with drw, divide by the sum of the weights (weighted_mean) or by the batch size (mean).
        keep_mixing: with drw, go on mixing while the classes are weighted.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    if not drw and not keep_mixing:
        raise ConfigError("keep_mixing = False received without drw, and the mixing would never end; add --drw")
    if alpha is None:
        alpha = ALPHA.get((problem.source, problem.kind))
    strength = None
    if major_strength is not None:
        strength = [major_strength * bool(major) for major in class_groups(problem.counts)["major"]]
    weakening = MFW(problem.counts, alpha=alpha, beta=beta, kind=problem.kind, std=std, draw=draw, strength=strength)
    layer = layer or problem.second_group
    mixer = Weakening(weakening, layer)
    weight = deferred(problem.counts, drw)
    if weight is None or keep_mixing:
        objective = Classify(mixer=mixer, weight=weight, reduction=reduction)
    else:
        objective = WeakenUntil(mixer, weight, reduction)
    # The supplement trains MFW for 300 epochs on CIFAR, half as long again as the others.
    schedule = {"epochs": 300} if problem.source in ("cifar10", "cifar100") else {}
    return Method(
        stages=(Stage(objective),),
        label="MFW" + "-DRW" * drw,
        paper=schedule,
        own=schedule,
        resolved={
            "alpha": weakening.alpha,
            "beta": weakening.beta,
            "layer": layer,
            "major_strength": "by the formula" if major_strength is None else major_strength,
        },
    )


def furthest_apart(counts: tuple[int, ...], one: StrengthSetting, other: StrengthSetting) -> float:
    """The largest difference that any class has between its strengths under two settings.

    >>> furthest_apart((5000, 5000, 50, 50), ("geometric", 2), ("arithmetic", 0.01)) < SAME_RUN
    True
    """
    pairs = zip(_strengths(counts, one), _strengths(counts, other), strict=True)
    return max(abs(a - b) for a, b in pairs)


def _strengths(counts: tuple[int, ...], setting: StrengthSetting) -> list[float]:
    std, beta = setting
    return strength_of(counts, beta=beta, std=std)
