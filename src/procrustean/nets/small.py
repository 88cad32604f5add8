"""Small networks: with batch normalisation for 8 x 8 digits, seconds to train on a CPU; wider, for small photographs;
and with layer normalisation in the manner of ConvNeXt (Liu et al. 2022), for images from 8 pixels on."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

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


class ConvNet(Backbone):
    """Five 3 x 3 convolutions of growing width, for photographs made small, of about 64 pixels."""

    groups = with_own_names("input", "group1", "group2", "group3")
    chain = tuple(groups)
    shrinks = 8

    def __init__(self, *, channels: int = 3, width: int = 32) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = nn.Sequential(ConvNormReLU(channels, width, stride=2), ConvNormReLU(width, 2 * width))
        self.group2 = nn.Sequential(
            nn.MaxPool2d(2), ConvNormReLU(2 * width, 4 * width), ConvNormReLU(4 * width, 4 * width)
        )
        self.group3 = nn.Sequential(nn.MaxPool2d(2), ConvNormReLU(4 * width, 8 * width))
        self.features = 8 * width


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of the channels of every pixel, [B, C, H, W]."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class DepthwiseBlock(nn.Module):
    """x + mix(layer_norm(depthwise(x))): a 5 x 5 depthwise convolution, then two linear layers along the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.depthwise(x).permute(0, 2, 3, 1))  # channels last, which linear layers act on
        change: Tensor = self.narrow(F.gelu(self.widen(z)))
        return x + change.permute(0, 3, 1, 2)


class LayerNormNet(Backbone):
    """A stem of 2 x 2 patches and three stages of blocks, each at half the size of the one before: group1 to group4."""

    groups = with_own_names("input", "group1", "group2", "group3", "group4")
    chain = tuple(groups)
    shrinks = 0  # only batch normalisation minds a last map of a single pixel

    def __init__(self, *, channels: int = 3, width: int = 48) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = nn.Sequential(nn.Conv2d(channels, width, 2, stride=2), ChannelNorm(width))
        self.group2 = nn.Sequential(DepthwiseBlock(width), DepthwiseBlock(width))
        self.group3 = nn.Sequential(_halved(width), DepthwiseBlock(2 * width), DepthwiseBlock(2 * width))
        last = nn.Sequential(DepthwiseBlock(4 * width), ChannelNorm(4 * width))
        self.group4 = nn.Sequential(_halved(2 * width), DepthwiseBlock(4 * width), last)
        self.features = 4 * width


def _halved(width: int) -> nn.Sequential:
    """Half the size, twice the channels."""
    return nn.Sequential(ChannelNorm(width), nn.Conv2d(width, 2 * width, 2, stride=2))
