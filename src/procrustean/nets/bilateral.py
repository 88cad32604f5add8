"""A network whose last block exists twice: two branches on a common trunk (Zhou et al. 2020)."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from . import initialise
from .classifier import Backbone
from .projected import refuse_projected

Branch = Literal["conventional", "rebalancing"]


class ForkedGroup(nn.Module):
    """A group of blocks whose last one, or only one, gets a twin with initial weights of its own."""

    def __init__(self, group: nn.Module) -> None:
        super().__init__()
        blocks = list(group) if isinstance(group, nn.Sequential) else [group]
        self.shared = nn.Sequential(*blocks[:-1])
        self.conventional = blocks[-1]
        self.rebalancing = copy.deepcopy(blocks[-1])
        initialise(self.rebalancing)

    def forward(self, x: Tensor) -> Tensor:
        z = self.shared(x)
        return torch.cat((self.conventional(z), self.rebalancing(z)), dim=1)

    def branch(self, x: Tensor, name: Branch) -> Tensor:
        """The map of one branch alone."""
        z: Tensor = (self.conventional if name == "conventional" else self.rebalancing)(self.shared(x))
        return z


class BilateralBackbone(Backbone):
    """An untrained backbone with its last group forked: the features of both branches, side by side.

    It takes over the groups of the backbone it is made from, under their names. That backbone has to be a chain of
    its groups and a mean over the pixels.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        refuse_projected(backbone, "BBN")
        self.groups, self.second_group, self.shrinks = backbone.groups, backbone.second_group, backbone.shrinks
        *trunk, last = self.groups
        for name in trunk:
            setattr(self, name, getattr(backbone, name))
        setattr(self, last, ForkedGroup(getattr(backbone, last)))
        self.features = 2 * backbone.features

    @property
    def forked(self) -> ForkedGroup:
        """The last group."""
        group: ForkedGroup = getattr(self, self.groups[-1])
        return group

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.forked(self.trunk(x))
        return z.mean((2, 3))

    def trunk(self, x: Tensor) -> Tensor:
        """The map before the last group."""
        for name in self.groups[:-1]:
            x = getattr(self, name)(x)
        return x

    def branch(self, x: Tensor, name: Branch) -> Tensor:
        """The feature of one branch alone, half as wide."""
        return self.forked.branch(self.trunk(x), name).mean((2, 3))
