"""ResNets for 32 x 32 images (He et al. 2016, Sec. 4.2), the variant of the imbalanced-CIFAR literature."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from .classifier import Backbone


class Shortcut(nn.Module):
    """Option A: every second pixel, new channels filled with zeros on both sides; no parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation, added to the shortcut, then ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        changes = stride != 1 or inputs != outputs
        self.shortcut = Shortcut(inputs, outputs, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNetCifar(Backbone):
    """Stem and three stages of `blocks` residual blocks: group1 to group4 of the paper."""

    groups = ("input", "group1", "group2", "group3", "group4")
    second_group = "group2"

    def __init__(self, *, blocks: int, channels: int = 3, width: int = 16) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.group2 = _stage(width, width, blocks, stride=1)
        self.group3 = _stage(width, 2 * width, blocks, stride=2)
        self.group4 = _stage(2 * width, 4 * width, blocks, stride=2)
        self.features = 4 * width

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.group4(self.group3(self.group2(self.group1(self.input(x)))))
        return z.mean((2, 3))


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)))
