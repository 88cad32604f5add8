"""LWS (Kang et al. 2020): after usual training, one scale per class is learnt on balanced classes."""

from __future__ import annotations

from typing import Literal

from procrustean.balance.objectives import Classify
from procrustean.balance.samplers import class_aware
from procrustean.balance.types import Problem
from procrustean.data.recipes import decoupling
from procrustean.methods.method import Method, Stage
from procrustean.nets.heads import with_scales


def lws(problem: Problem, *, bn_mode: Literal["train", "eval"] = "train") -> Method:
    """Learnable weight scaling: the trained classifier is fixed but for a factor of each class's score.

    Formula: stage 1 CE on all images alike; stage 2: z_c = s_c * (w_c f + b_c), only s learns, from 1, with CE on
    runs of 4 images per class in turn.

    Args:
        bn_mode: whether the statistics of batch normalisation follow the balanced batches of stage 2 (train), as in
            the authors' code, or stay (eval).
    """
    parts = decoupling(problem.source, imagenet=5, inaturalist=5)
    features = Stage(Classify(), name="features", share=parts.features)
    scales = Stage(
        Classify(),
        name="scales",
        share=parts.classifier,
        sampler=class_aware,
        trainable="head.scale",
        norm=bn_mode,
        reshape=with_scales,
        recipe=parts.second_stage,
    )
    return Method((features, scales), label="LWS", longer=parts.longer, own=parts.own)
