"""Probes in the course of a run: when they are due, and what is kept of them."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from procrustean.balance.types import Clock
from procrustean.engine.probes import GRADIENT_IMAGES, Measurement, Probe, chosen_per_class
from procrustean.engine.stored_features import features_file
from procrustean.methods.base import Stage
from procrustean.nets.classifier import Classifier
from procrustean.records.run_folder import RunFolder


class Cost(NamedTuple):
    """What probes take on a kind of device, and may take."""

    forward: float  # for an image, relative to training on it once
    gradients: float  # of an image at a layer, unmixed and mixed, likewise
    share: float  # of the training's time, at the default spacing


#: A GPU trains by captured steps and kernels of its own, which probes do without; and its first probe takes up to
#: five times as long as the others, which the smaller share makes up for. docs/analysis.md has what was measured.
COSTS = {"cpu": Cost(forward=0.5, gradients=2.1, share=0.1), "cuda": Cost(forward=0.37, gradients=5.0, share=0.07)}
#: Most images per class whose features are kept for pictures.
FEATURE_IMAGES = 250


def default_spacing(counts: Sequence[int], test_images: int, device: str = "cpu") -> int:
    """Epochs between probes that keep their time below a tenth of the training's.

    >>> counts = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    >>> default_spacing(counts, 10_000), default_spacing(counts, 10_000, "cuda")
    (13, 22)
    """
    cost = COSTS[device]
    gradients = sum(min(count, GRADIENT_IMAGES) for count in counts)
    work = cost.forward * (sum(counts) + test_images) + cost.gradients * gradients
    return max(1, math.ceil(work / sum(counts) / cost.share))


class Probing:
    """Measures a run's network at chosen epochs.

    Args:
        probe: what measures.
        every: epochs between two probes; the last epoch of a stage is always measured.
        features_at: epochs, counted from 1, after which features are kept too; those of the last epoch always are.
        directory: where they are kept.
    """

    def __init__(self, probe: Probe, *, every: int, features_at: Sequence[int], directory: RunFolder) -> None:
        self.probe, self.every, self.directory = probe, every, directory
        self.features_at = frozenset(features_at)

    def due(self, epoch: int, last: bool) -> bool:
        """Whether the network is measured after this epoch, counted from 0; `last` of its stage."""
        return last or (epoch + 1) % self.every == 0 or epoch + 1 in self.features_at

    def measure(
        self, net: Classifier, stage: Stage, clock: Clock, epoch: int, last: bool
    ) -> Generator[None, None, dict[str, Any]]:
        """The measurements for the record of an epoch, counted from 0 in all stages; yields between batches."""
        found = yield from self.probe.measure(net, stage, clock)
        if last or epoch + 1 in self.features_at:
            self.directory.save_arrays(features_file(epoch + 1), self.kept_features(net, found))
        return found.values

    def kept_features(self, net: Classifier, found: Measurement) -> dict[str, npt.NDArray[Any]]:
        """Features and labels of some images of each class, and the linear layer that classifies them."""
        probe = self.probe
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, features, images in (
            ("train", found.train_features, probe.train),
            ("test", found.test_features, probe.test),
        ):
            labels = images.labels.cpu().numpy()
            kept = np.sort(chosen_per_class(labels, probe.classes, FEATURE_IMAGES, probe.seed, f"probe.{name}"))
            # Half precision is plenty for a picture; features in the plane are the picture, and cost nothing.
            kind = np.float32 if features.shape[1] <= 2 else np.float16
            arrays[f"{name}_features"] = _host(features)[kept].astype(kind)
            arrays[f"{name}_labels"] = labels[kept].astype(np.int32)
        if isinstance(net.head, nn.Linear):
            arrays |= {"head_weight": _host(net.head.weight), "head_bias": _host(net.head.bias)}
        return arrays


def _host(values: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.detach().to("cpu", torch.float32).numpy()
    return array
