"""The ResNets for 32 x 32 images with group normalisation (Wu, He 2018): no statistics of batches anywhere."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from .classifier import Backbone, with_own_names
from .resnet_cifar import Shortcut

#: In every layer, of 4 to 16 channels each.
GROUPS = 4


class Unit(nn.Module):
    """relu(group_norm(conv3x3(x)) + residual)."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(GROUPS, outputs)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = self.norm(self.conv(x))
        return F.relu(y if residual is None else y + residual)


class Block(nn.Module):
    """Two units, the second added to the shortcut before its ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = Unit(inputs, outputs, stride)
        self.second = Unit(outputs, outputs)
        changes = stride != 1 or inputs != outputs
        self.shortcut = Shortcut(inputs, outputs, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x), self.shortcut(x))
        return out


class GroupNormResNet(Backbone):
    """Stem and three stages of `blocks` residual blocks, layer for layer those of `ResNetCifar`."""

    groups = with_own_names("input", "group1", "group2", "group3", "group4")
    chain = tuple(groups)
    shrinks = 0  # only batch normalisation minds a last map of a single pixel

    def __init__(self, *, blocks: int, channels: int = 3, width: int = 16) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = Unit(channels, width)
        self.group2 = _stage(width, width, blocks, stride=1)
        self.group3 = _stage(width, 2 * width, blocks, stride=2)
        self.group4 = _stage(2 * width, 4 * width, blocks, stride=2)
        self.features = 4 * width


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = Block(inputs, outputs, stride)
    return nn.Sequential(first, *(Block(outputs, outputs, 1) for _ in range(blocks - 1)))
