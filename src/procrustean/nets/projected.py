"""A network with a narrow feature: a linear layer takes that of another network to the plane, where it can be drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from .classifier import Backbone


class ProjectedBackbone(Backbone):
    """W f(x) + b, f the feature of another backbone, whose groups it takes over under their names."""

    def __init__(self, backbone: Backbone, features: int = 2) -> None:
        super().__init__()
        self.groups, self.second_group, self.shrinks = backbone.groups, backbone.second_group, backbone.shrinks
        for name in self.groups:
            setattr(self, name, getattr(backbone, name))
        self.projection = nn.Linear(backbone.features, features)
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        for name in self.groups:
            x = getattr(self, name)(x)
        wide = x.mean((2, 3))
        # In float32: two numbers carry all that the head sees, and bf16 would leave them two or three digits.
        with torch.autocast(wide.device.type, enabled=False):
            return nn.functional.linear(wide.float(), self.projection.weight.float(), self.projection.bias.float())


class Projected:
    """Builds projected networks of one kind; has the layers of that kind."""

    def __init__(self, make: Callable[..., Backbone], kind: type[Backbone]) -> None:
        self.make, self.func = make, kind  # `func`, as a partial has it: where layers are looked up

    def __call__(self, *, channels: int) -> ProjectedBackbone:
        return ProjectedBackbone(self.make(channels=channels))


def refuse_projected(backbone: Backbone, method: str) -> None:
    """ConfigError for a method that rebuilds the network behind its last map and would lose the projection."""
    if isinstance(backbone, ProjectedBackbone):
        raise ConfigError(
            f"{method} puts layers of its own behind the last feature map, so a network with features of width "
            f"{backbone.features} is not one for it; choose a --net without _2d"
        )
