"""Networks that are made from another: two branches on a common trunk (Zhou et al. 2020), or a feature in the plane."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from procrustean.nets.classifier import Backbone, check_chain
from procrustean.nets.net_table import NETS
from procrustean.nets.noise import Noise

Branch = Literal["conventional", "rebalancing"]


class ForkedGroup(nn.Module):
    """A group of blocks whose last one, or only one, has a twin."""

    def __init__(self, group: nn.Module) -> None:
        super().__init__()
        blocks = list(group) if isinstance(group, nn.Sequential) else [group]
        self.shared = nn.Sequential(*blocks[:-1])
        self.conventional = blocks[-1]
        self.rebalancing = copy.deepcopy(blocks[-1])
        for module in self.rebalancing.modules():
            if isinstance(module, Noise):
                module.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        z = self.shared(x)
        return torch.cat((self.conventional(z), self.rebalancing(z)), dim=1)

    def branch(self, x: Tensor, name: Branch) -> Tensor:
        """The map of one branch alone."""
        z: Tensor = (self.conventional if name == "conventional" else self.rebalancing)(self.shared(x))
        return z


class BilateralBackbone(Backbone):
    """An untrained backbone with its last group forked: the features of both branches, side by side.

    It takes over the children of the backbone it is made from, under their names.

    Args:
        backbone: a chain of children and a mean over the pixels.
        alike: whether the twin starts with the weights of the block it repeats, as behind pretrained weights it
            should, instead of weights of its own.
    """

    def __init__(self, backbone: Backbone, *, alike: bool = False) -> None:
        super().__init__()
        check_chain(backbone, "a network whose last block exists twice")
        self.second_group, self.shrinks = backbone.second_group, backbone.shrinks
        trunk, repeated = backbone.chain[: -backbone.fork], backbone.chain[-backbone.fork :]
        for name in trunk:
            setattr(self, name, getattr(backbone, name))
        parts = [getattr(backbone, name) for name in repeated]
        forked = ForkedGroup(parts[0] if len(parts) == 1 else nn.Sequential(nn.Sequential(*parts)))
        if not alike:
            backbone.initialise(forked.rebalancing)
        setattr(self, repeated[0], forked)
        self.chain = (*trunk, repeated[0])
        self.groups = {name: repeated[0] if child in repeated else child for name, child in backbone.groups.items()}
        self.features = 2 * backbone.features

    @property
    def forked(self) -> ForkedGroup:
        """The last group."""
        group: ForkedGroup = getattr(self, self.chain[-1])
        return group

    def trunk(self, x: Tensor) -> Tensor:
        """The map before the last group."""
        for name in self.chain[:-1]:
            x = getattr(self, name)(x)
        return x

    def branch(self, x: Tensor, name: Branch) -> Tensor:
        """The feature of one branch alone, half as wide."""
        return self.forked.branch(self.trunk(x), name).mean((2, 3))


#: Width of the narrow feature.
FEATURES = 2


class Projection(nn.Linear):
    """The linear layer to a narrow feature.

    It and the head behind it keep PyTorch's initial weights: with the larger ones of the other layers nothing bounds
    the feature, and training at a rate of 0.1 breaks down in its first epochs.
    """


class ProjectedBackbone(Backbone):
    """W f(x) + b, f the feature of another backbone, whose groups it takes over under their names."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.groups, self.second_group, self.shrinks = backbone.groups, backbone.second_group, backbone.shrinks
        # Not a chain: what is built behind its last map would lose the projection.
        self.chain, self.inner = (), backbone.chain
        for name in self.inner:
            setattr(self, name, getattr(backbone, name))
        self.projection = Projection(backbone.features, FEATURES)
        self.features = FEATURES

    def map(self, x: Tensor) -> Tensor:
        for name in self.inner:
            x = getattr(self, name)(x)
        return x

    def initialise(self, part: nn.Module) -> None:
        for module in part.modules():
            narrow = isinstance(module, nn.Linear) and (isinstance(module, Projection) or module.in_features <= 2)
            if isinstance(module, nn.Conv2d | nn.Linear) and not narrow:
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.map(x).mean((2, 3))
        # In float32: two numbers carry all that the head sees, and bf16 would leave them two or three digits.
        with torch.autocast("cpu" if wide.is_meta else wide.device.type, enabled=False):
            return nn.functional.linear(wide.float(), self.projection.weight.float(), self.projection.bias.float())


def projected(*, channels: int, net: str) -> ProjectedBackbone:
    """The network of that name in the table, with a narrow feature."""
    return ProjectedBackbone(NETS[net](channels=channels))
