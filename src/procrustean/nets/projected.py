"""A network with a narrow feature: a linear layer takes that of another network to the plane, where it can be drawn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from procrustean.nets.classifier import Backbone
from procrustean.nets.net_table import NETS

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
