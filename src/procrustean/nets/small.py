"""A small convolutional network for tiny images such as 8 x 8 digits: seconds to train on a CPU."""

from __future__ import annotations

from torch import nn

from procrustean.nets.blocks import ConvNormReLU
from procrustean.nets.classifier import Backbone, with_own_names


class SmallNet(Backbone):
    """Three groups of 3 x 3 convolution, batch normalisation, ReLU; the second and third halve the image."""

    groups = with_own_names("input", "group1", "group2", "group3")
    chain = tuple(groups)
    shrinks = 4

    def __init__(self, *, channels: int = 1, width: int = 16) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = ConvNormReLU(channels, width)
        self.group2 = ConvNormReLU(width, 2 * width, stride=2)
        self.group3 = ConvNormReLU(2 * width, 4 * width, stride=2)
        self.features = 4 * width
