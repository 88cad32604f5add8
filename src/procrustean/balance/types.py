"""The values that flow through a training step: tensors of fixed shape, so that it can be captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from procrustean.balance.count_facts import Kind


class HasLayers(Protocol):
    """What a network says of its layers."""

    @property
    def groups(self) -> Mapping[str, str]: ...

    @property
    def second_group(self) -> str: ...


class Images(NamedTuple):
    """Augmented and normalised images with their labels."""

    x: Tensor  # [B, channels, H, W]
    y: Tensor  # [B] int64


class PixelRange(NamedTuple):
    """What the darkest and the brightest pixel become when images are normalised, [channels, 1, 1]."""

    black: Tensor
    white: Tensor


class Batch(NamedTuple):
    """One mini-batch with all its random numbers, drawn ahead."""

    x: Tensor  # [B, channels, H, W] augmented and normalised
    y: Tensor  # [B] int64
    partner: Tensor  # [B] int64, a permutation of the batch
    inverse: Tensor  # [B] int64, its inverse
    u: dict[str, Tensor]  # name -> [B, ...] uniforms in [0, 1), as the objective asked for in `draws`
    extra: Images | None = None  # the stage's second stream of images, if it has one
    pixels: PixelRange | None = None  # None where x is not normalised and lies in [0, 1]


class Clock(NamedTuple):
    """Where training stands. The tensors change in place, so nothing is ever recompiled or captured again."""

    epoch: Tensor  # 0-d int64, counted from 0 within the stage
    lr: Tensor  # 0-d float32
    epochs: int  # length of the stage

    @classmethod
    def at(cls, epoch: int, epochs: int, device: torch.device) -> Clock:
        """A clock that stands at an epoch; its rate is 0 until it is set."""
        return cls(torch.tensor(epoch, device=device), torch.zeros((), device=device), epochs)


@dataclass(frozen=True)
class Problem:
    """What a method may know about the task. It never sees the images."""

    counts: tuple[int, ...]  # training images per class, largest first
    kind: Kind
    source: str = ""  # "cifar10", "cifar100", "digits", a folder's name ...
    layers: tuple[str, ...] = ()  # names of the layers that can be mixed
    second_group: str = "group2"  # the layer where the paper mixes

    @classmethod
    def on(cls, backbone: HasLayers, counts: tuple[int, ...], kind: Kind, source: str) -> Problem:
        """The task of a network, with the layers that it has."""
        return cls(counts, kind, source, layers=tuple(backbone.groups), second_group=backbone.second_group)

    @property
    def classes(self) -> int:
        return len(self.counts)
