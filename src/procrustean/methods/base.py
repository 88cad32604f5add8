"""What a method is: stages of training, and what it changes about the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import nn

from ..objectives import Objective
from ..rng import Stream

if TYPE_CHECKING:
    from ..nets.classifier import Classifier


class Sampler(Protocol):
    """Which training images an epoch shows; the draw uses nothing but the stream."""

    def __call__(self, labels: npt.NDArray[np.int64], count: int, stream: Stream) -> npt.NDArray[np.int64]:
        """`count` indices into the training set."""
        ...


@dataclass(frozen=True)
class Stage:
    """A part of training with its own objective, sampler and trainable part.

    Args:
        objective: what is minimised.
        name: shown in progress and records.
        share: this stage's part of the epochs; the shares of all stages add up to 1.
        sampler: None shuffles the training set, every image once.
        trainable: "all", or the name of the part of the network that learns ("head").
        begin: run on the network before the stage (re-initialise the head, ...).
        recipe: changes to the recipe within this stage (lr, schedule, ...).
    """

    objective: Objective
    name: str = "train"
    share: float = 1.0
    sampler: Sampler | None = None
    trainable: str = "all"
    begin: Callable[[Classifier], None] | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A complete training method.

    Args:
        stages: trained one after the other.
        label: the name in tables ("LDAM-DRW").
        head: builds the classifier head from (features, classes); None for a linear layer.
        finish: turns the trained network into the one that predicts.
        paper: what the MFW paper changes in its recipe for this method ({"epochs": 300}).
        own: what the method's own publication changes in the recipe (`--recipe own`).
    """

    stages: tuple[Stage, ...]
    label: str
    head: Callable[[int, int], nn.Module] | None = None
    finish: Callable[[Classifier], None] | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
