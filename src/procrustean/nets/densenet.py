"""DenseNets (Huang et al. 2017), with the layer names of torchvision."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from procrustean.nets.blocks import BatchNorm
from procrustean.nets.classifier import Backbone
from procrustean.nets.resnet import STEMS, Stem


class DenseLayer(nn.Module):
    """Normalisation, ReLU and a convolution, 1 x 1 and again 3 x 3: `growth` new channels."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.relu1 = BatchNorm(inputs), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2, self.relu2 = BatchNorm(4 * growth), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.conv1(self.relu1(self.norm1(x)))
        new: Tensor = self.conv2(self.relu2(self.norm2(narrow)))
        return new


class DenseBlock(nn.Module):
    """Layers of which each sees the output of all before it; the output is all of them, and the input."""

    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        self.outputs = inputs + layers * growth
        for number in range(layers):
            self.add_module(f"denselayer{number + 1}", DenseLayer(inputs + number * growth, growth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = torch.cat((x, layer(x)), 1)
        return x


class Transition(nn.Module):
    """Half the channels, half the side."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.outputs = inputs // 2
        self.norm, self.relu = BatchNorm(inputs), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(inputs, self.outputs, 1, bias=False)
        self.pool = nn.AvgPool2d(2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.pool(self.conv(self.relu(self.norm(x))))
        return z


class DenseNet(Backbone):
    """Stem and four dense blocks: group1 to group5. A group ends behind its dense block, before the transition.

    Args:
        blocks: layers of each dense block.
        stem: as that of a ResNet.
        channels: colour channels of the image.
        growth: channels that each layer adds.
    """

    groups = {  # noqa: RUF012 (never changed)
        "input": "input",
        "group1": "pool0",
        "group2": "denseblock1",
        "group3": "denseblock2",
        "group4": "denseblock3",
        "group5": "relu5",
    }
    chain = (
        "input", "conv0", "norm0", "relu0", "pool0", "denseblock1", "transition1", "denseblock2", "transition2",
        "denseblock3", "transition3", "denseblock4", "norm5", "relu5",
    )  # fmt: skip
    # Dense layers see all before them, so the last cannot stand apart: a second branch repeats the last dense block.
    fork = 3

    def __init__(
        self, *, blocks: tuple[int, int, int, int], stem: Stem = "imagenet", channels: int = 3, growth: int = 32
    ) -> None:
        super().__init__()
        kernel, stride, pools = STEMS[stem]
        width = 2 * growth
        self.input = nn.Identity()
        self.conv0 = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.norm0, self.relu0 = BatchNorm(width), nn.ReLU(inplace=True)
        self.pool0 = nn.MaxPool2d(3, stride=2, padding=1) if pools else nn.Identity()
        for number, layers in enumerate(blocks, 1):
            block = DenseBlock(width, growth, layers)
            setattr(self, f"denseblock{number}", block)
            width = block.outputs
            if number < len(blocks):
                transition = Transition(width)
                setattr(self, f"transition{number}", transition)
                width = transition.outputs
        self.norm5, self.relu5 = BatchNorm(width), nn.ReLU(inplace=True)
        self.features = width
        self.shrinks = stride * (2 if pools else 1) * 8

    def initialise(self, part: nn.Module) -> None:
        """Kaiming-normal (fan-in) convolutions and linear biases of 0, as torchvision."""
        for module in part.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif type(module) is nn.Linear and module.bias is not None:
                nn.init.zeros_(module.bias)

    def published_name(self, key: str) -> str:
        # The published file still writes norm.1 for what torchvision itself now calls norm1.
        return re.sub(r"(denselayer\d+\.(?:norm|conv))\.(\d)\.", r"\1\2.", key.removeprefix("features."))
