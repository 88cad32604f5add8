"""Averages of the weights along training, kept on the device beside the flat parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from procrustean.balance.objectives import Objective
from procrustean.balance.weights import epochs_of_setting_in
from procrustean.engine.parameters import FlatBuffers, FlatParameters

AverageKind = Literal["none", "ema", "swa", "both"]
SwaFrom = Literal["drw", "last_quarter"]

#: Of the exponential average: a memory of a thousand steps, shorter in the beginning.
DECAY = 0.999
#: The last epochs that the equal-weighted average covers.
SWA_SHARE = 0.25


def swa_begins(objective: Objective, epochs: int, swa_from: SwaFrom) -> int:
    """The first epoch, counted from 0, whose end "swa" averages.

    Networks from before and after deferred weights set in lie so far apart that their mean is worse than either.
    """
    begins = epochs - max(1, round(SWA_SHARE * epochs))
    if swa_from == "drw":
        begins = max(begins, *epochs_of_setting_in(objective, epochs), 0)
    return begins


class WeightAverages:
    """Averaged weights and batch-norm statistics; nothing is read by the host, so steps can be captured.

    "ema" is exponential: after step t, average = d * average + (1 - d) * weights, d = min(0.999, (1 + t) / (10 + t)).
    "swa" is the mean over the ends of the epochs from `first_epoch` on (Izmailov et al. 2018).
    """

    def __init__(self, kind: AverageKind, parameters: FlatParameters, buffers: FlatBuffers, first_epoch: int) -> None:
        self.parameters, self.buffers = parameters, buffers
        self.kinds = {"none": (), "ema": ("ema",), "swa": ("swa",), "both": ("ema", "swa")}[kind]
        self.first_epoch = first_epoch
        self._flat = {kind: [source.clone() for source in self._sources()] for kind in self.kinds}
        self._steps = torch.zeros((), device=parameters.master.device)

    @torch.no_grad()
    def after_step(self) -> None:
        """Follow one update; part of the captured step."""
        if "ema" in self._flat:
            self._steps.add_(1)
            share = 1 - torch.clamp((1 + self._steps) / (10 + self._steps), max=DECAY)
            for average, source in zip(self._flat["ema"], self._sources(), strict=True):
                average.lerp_(source, share)

    @torch.no_grad()
    def after_epoch(self, epoch: int) -> None:
        """Follow the end of an epoch, counted from 0."""
        if "swa" in self._flat and epoch >= self.first_epoch:
            for average, source in zip(self._flat["swa"], self._sources(), strict=True):
                average.lerp_(source, 1 / (epoch - self.first_epoch + 1))

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, by name, for checkpoints."""
        if not self.kinds:
            return {}
        flat = {
            f"average.{kind}.{part}": value
            for kind, values in self._flat.items()
            for part, value in zip(("weights", "statistics"), values, strict=True)
        }
        return {**flat, "average.steps": self._steps}

    def weights(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        """The averaged parameters and buffers by name."""
        parameters, buffers = self._flat[kind]
        yield from self.parameters.named(parameters)
        yield from self.buffers.named(buffers)

    def _sources(self) -> tuple[Tensor, Tensor]:
        return self.parameters.master, self.buffers.flat
