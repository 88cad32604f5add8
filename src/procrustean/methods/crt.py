"""cRT (Kang et al. 2020): features are learnt by usual training, then a new classifier on balanced classes."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from ..nets.classifier import Classifier
from ..objectives import Classify
from ..recipes import ldam_schedule
from ..samplers import class_aware
from ..types import Problem
from .base import Method, Stage

#: Epochs of the two stages on CIFAR (Zhang et al., Bag of tricks, AAAI 2021).
EPOCHS = (200, 30)
#: Recipe of the second stage, from there too; the rate falls in steps only where the schedule says so.
SECOND_STAGE: dict[str, Any] = {"milestones": (1 / 3, 2 / 3), "decay": 0.1, "weight_decay": 5e-4}


def crt(problem: Problem, *, bn_mode: Literal["train", "eval"] = "train") -> Method:
    """Classifier re-training: a new linear head on frozen features, all classes shown equally often.

    Formula: stage 1 CE on all images alike; stage 2: f fixed, z = W f + b from PyTorch's initial values for a linear
    layer, CE on runs of 4 images per class in turn.

    Args:
        bn_mode: whether the statistics of batch normalisation follow the balanced batches of stage 2 (train), as in
            the authors' code, or stay (eval).
    """
    total = sum(EPOCHS)
    features = Stage(Classify(), name="features", share=EPOCHS[0] / total)
    classifier = Stage(
        Classify(),
        name="classifier",
        share=EPOCHS[1] / total,
        sampler=class_aware,
        trainable="head",
        norm=bn_mode,
        reshape=_new_head,
        recipe=SECOND_STAGE,
    )
    paper = {"epochs": total} if problem.source in ("cifar10", "cifar100") else {}
    return Method((features, classifier), label="cRT", paper=paper, own={**ldam_schedule(), "epochs": total})


def _new_head(net: Classifier) -> None:
    assert isinstance(net.head, nn.Linear)
    net.head.reset_parameters()
