"""MiSLAS (Zhong et al. 2021): mixup for the features, then label-aware smoothing for the classifier."""

from __future__ import annotations

from typing import Literal

from procrustean.balance.losses import LabelAwareSmoothing
from procrustean.balance.objectives import Classify
from procrustean.balance.samplers import class_aware
from procrustean.balance.types import Problem
from procrustean.data.recipes import ldam_schedule, nearest_published, published
from procrustean.methods.label_aware_smoothing import PUBLISHED
from procrustean.methods.method import Method, Stage
from procrustean.methods.mixup import ImageMixing
from procrustean.nets.heads import with_scales

#: Epochs of the two stages on CIFAR.
EPOCHS = (200, 10)
#: Rate of the head in stage 2 relative to that of the scales, by the ratio of the largest to the smallest class.
HEAD_RATE = {
    "cifar10": {100: 0.5, 50: 0.2, 10: 0.2},
    "cifar100": {100: 0.2, 50: 0.1, 10: 0.1},
}


def mislas(
    problem: Problem,
    *,
    alpha: float = 1.0,
    head: float | None = None,
    tail: float | None = None,
    head_rate: float | None = None,
    bn_mode: Literal["train", "eval"] | None = None,
) -> Method:
    """Mixup on all images, then scales and head on balanced classes with labels smoothed by class size.

    Formula: stage 1: mixup; stage 2: f fixed, z_c = s_c * (w_c f + b_c), s from 1, w and b as trained,
    loss = (1 - e_y) * -log p_y + e_y * mean_c(-log p_c) on runs of 4 images per class in turn;
    e_c = tail + (head - tail) * sin(pi/2 * (N_c - N_min) / (N_max - N_min)).

    Args:
        alpha: spread of mixup's share; 1 is uniform.
        head: smoothing of the largest class; default 0.3, 0.2, 0.1 for ratios about 100, 50, 10 (CIFAR-100: 0.4,
            0.3, 0.2).
        tail: smoothing of the smallest class; default 0 (CIFAR-100 at a ratio about 100: 0.1).
        head_rate: learning rate of w and b relative to that of s; default 0.5, 0.2, 0.2 for ratios about 100, 50, 10
            (CIFAR-100: 0.2, 0.1, 0.1).
        bn_mode: whether the statistics of batch normalisation follow the balanced batches of stage 2; default eval,
            they stay (CIFAR-100: train).
    """
    usual_head, usual_tail = nearest_published(PUBLISHED, problem.source, problem.counts)
    head = usual_head if head is None else head
    tail = usual_tail if tail is None else tail
    head_rate = nearest_published(HEAD_RATE, problem.source, problem.counts) if head_rate is None else head_rate
    bn_mode = bn_mode or ("train" if problem.source == "cifar100" else "eval")
    smoothing = LabelAwareSmoothing(problem.counts, head, tail, reduction="none")
    total = sum(EPOCHS)
    features = Stage(Classify(mixer=ImageMixing(alpha)), name="features", share=EPOCHS[0] / total)
    classifier = Stage(
        Classify(loss=smoothing),
        name="classifier",
        share=EPOCHS[1] / total,
        sampler=class_aware,
        trainable="head",
        norm=bn_mode,
        rates={"head.linear": head_rate},
        reshape=with_scales,
        recipe={"schedule": "cosine", "warmup_epochs": 0},
    )
    longer = total / EPOCHS[0] if problem.source in PUBLISHED else 1.0
    own = published(problem.source, {**ldam_schedule(), "decay": 0.1, "epochs": total})
    resolved = {"head": head, "tail": tail, "head_rate": head_rate, "bn_mode": bn_mode}
    return Method((features, classifier), label="MiSLAS", longer=longer, own=own, resolved=resolved)
