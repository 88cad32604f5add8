"""cRT (Kang et al. 2020): features are learnt by usual training, then a new classifier on balanced classes."""

from __future__ import annotations

from typing import Literal

from torch import nn

from procrustean.balance.objectives import Classify
from procrustean.balance.samplers import class_aware
from procrustean.balance.types import Problem
from procrustean.data.recipes import decoupling
from procrustean.methods.method import Method, Stage
from procrustean.nets.classifier import Classifier


def crt(problem: Problem, *, bn_mode: Literal["train", "eval"] = "train") -> Method:
    """Classifier re-training: a new linear head on frozen features, all classes shown equally often.

    Formula: stage 1 CE on all images alike; stage 2: f fixed, z = W f + b from PyTorch's initial values for a linear
    layer, CE on runs of 4 images per class in turn.

    Args:
        bn_mode: whether the statistics of batch normalisation follow the balanced batches of stage 2 (train), as in
            the authors' code, or stay (eval).
    """
    parts = decoupling(problem.source, imagenet=10, inaturalist=30)
    features = Stage(Classify(), name="features", share=parts.features)
    classifier = Stage(
        Classify(),
        name="classifier",
        share=parts.classifier,
        sampler=class_aware,
        trainable="head",
        norm=bn_mode,
        reshape=_new_head,
        recipe=parts.second_stage,
    )
    return Method((features, classifier), label="cRT", longer=parts.longer, own=parts.own)


def _new_head(net: Classifier) -> None:
    assert isinstance(net.head, nn.Linear)
    net.head.reset_parameters()
