"""Major Feature Weakening (Ye, Zhan, Chao 2021): features of large classes are mixed, labels are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..counts import Spread, geometric_mean
from ..mfw import MFW
from ..mixing import Mix
from ..objectives import Classify, Mixer, Mixture
from ..types import Batch, Problem
from ..weights import deferred
from .base import Method, Stage

#: Best alpha of the paper's table where it differs from the general default: long-tailed CIFAR-100.
ALPHA = {("cifar100", "long_tailed"): 0.2}


class Weakening(Mixer):
    """MFW on the trainer's own random numbers."""

    draws: Mapping[str, tuple[int, ...]] = {"mfw": ()}

    def __init__(self, mfw: MFW, layer: str) -> None:
        super().__init__()
        self.mfw = mfw
        self.at = (layer,)

    def forward(self, batch: Batch) -> Mixture:
        u = batch.u["mfw"] if self.mfw.draw == "sample" else batch.u["mfw"][:1]
        return Mixture((Mix(batch.partner, batch.inverse, self.mfw.share(batch.y, u)),), None)


def mfw(
    problem: Problem,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    std: Spread = "geometric",
    draw: Literal["sample", "batch"] = "sample",
    layer: str | None = None,
    major_strength: float | None = None,
    drw: bool = False,
) -> Method:
    """Weaken the features of major classes to equalise the training progress.

    Formula: z~_i = (1 - l_i) z_i + l_i z_p(i), l_i = s(N_yi) * Beta(alpha, alpha), label y_i kept;
    s(N_c) = 0.5 * sigmoid((N_c - mu) / (beta * gamma)), mu the geometric mean of the N_c, gamma their
    standard deviation.

    Args:
        alpha: spread of the mixing share; default 1 for long-tailed (0.2 on CIFAR-100), 5 for step.
        beta: softness of s; default 2 for long-tailed, 0.01 for step.
        std: gamma of s: geometric or arithmetic standard deviation.
        draw: one share per sample or one per batch.
        layer: where to mix; default the second group of convolutions, as in the paper.
        major_strength: s for classes of at least the geometric mean of the counts, 0 for the others, instead
            of the formula (the paper's toy experiment uses 0.5).
        drw: weight the classes by effective numbers in the last 20 % of the epochs; the mixing stays on.
    """
    if alpha is None:
        alpha = ALPHA.get((problem.source, problem.kind))
    strength = None
    if major_strength is not None:
        middle = geometric_mean(problem.counts)
        strength = [major_strength * (n >= middle) for n in problem.counts]
    weakening = MFW(problem.counts, alpha=alpha, beta=beta, kind=problem.kind, std=std, draw=draw, strength=strength)
    mixer = Weakening(weakening, layer or problem.second_group)
    objective = Classify(mixer=mixer, weight=deferred(problem.counts, drw))
    # The supplement trains MFW for 300 epochs on CIFAR, half as long again as the others.
    schedule = {"epochs": 300} if problem.source in ("cifar10", "cifar100") else {}
    return Method(stages=(Stage(objective),), label="MFW" + " w/ DRW" * drw, paper=schedule, own=schedule)
