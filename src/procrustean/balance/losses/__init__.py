"""Losses for imbalanced classes, for any training loop: `loss(logits, labels)`.

In yours:

    loss = LDAM(class_counts).to(device)
    loss(model(images), labels).backward()

Each is an nn.Module and takes `reduction="mean"` (the default) or `"none"`. The arithmetic is float32 whatever the
precision of the logits, also under autocast, and float64 for float64 logits. What a loss derives from the class counts
is a buffer in float32, so it moves with `.to(device)`, and is rounded to seven digits for float64 logits, too. The
buffers are not persistent: they follow from the constructor's arguments, and a model that holds a loss keeps the
state-dict keys it has without it.
"""

from procrustean.balance.losses.base import CrossEntropy, Loss, Reduction
from procrustean.balance.losses.class_balanced import ClassBalanced
from procrustean.balance.losses.focal import Focal
from procrustean.balance.losses.label_aware_smoothing import LabelAwareSmoothing
from procrustean.balance.losses.ldam import LDAM
from procrustean.balance.losses.seql import SEQL
from procrustean.balance.losses.vector_scaling import CDT, VS, BalancedSoftmax, LogitAdjusted

__all__ = [
    "CDT",
    "LDAM",
    "SEQL",
    "VS",
    "BalancedSoftmax",
    "ClassBalanced",
    "CrossEntropy",
    "Focal",
    "LabelAwareSmoothing",
    "LogitAdjusted",
    "Loss",
    "Reduction",
]
