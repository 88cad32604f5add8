"""A method in a file of a user's, which asks for its run to be stopped where the environment says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance import Batch, Classify, Clock, Loss, Problem, deferred
from procrustean.methods import Method, Stage


class SmoothedLoss(Loss):
    """Cross-entropy of labels that are smoothed."""

    def __init__(self, smoothing: float) -> None:
        super().__init__(reduction="none")
        self.smoothing = smoothing

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none", label_smoothing=self.smoothing)


class Stopping(Classify):
    """The usual objective; in the third epoch of the run in that folder it asks for the end."""

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        run = os.environ.get("GOLDEN_STOP")
        if run and Path(run).is_dir() and int(clock.epoch) == 2:
            del os.environ["GOLDEN_STOP"]
            signal.raise_signal(signal.SIGTERM)
        loss: Tensor = super().forward(net, batch, clock)
        return loss


def smoothed(problem: Problem, *, smoothing: float = 0.1, drw: bool = False) -> Method:
    """Cross-entropy with smoothed labels.

    Args:
        smoothing: share of the label that goes to all classes.
        drw: weight the classes by effective numbers in the last 20 % of the epochs.
    """
    objective = Stopping(loss=SmoothedLoss(smoothing), weight=deferred(problem.counts, drw))
    return Method(stages=(Stage(objective),), label="Smoothed" + "-DRW" * drw)
