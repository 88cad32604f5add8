"""The ResNets for 32 x 32 images with group normalisation (Wu, He 2018): no statistics of batches anywhere."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from procrustean.nets.blocks import ConvGroupNormReLU
from procrustean.nets.classifier import Backbone, with_own_names
from procrustean.nets.resnet_cifar import Shortcut

#: In every layer, of 4 to 16 channels each.
GROUPS = 4


_unit = partial(ConvGroupNormReLU, groups=GROUPS)


class Block(nn.Module):
    """Two units, the second added to the shortcut before its ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _unit(inputs, outputs, stride)
        self.second = _unit(outputs, outputs)
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
        self.group1 = _unit(channels, width)
        self.group2 = _stage(width, width, blocks, stride=1)
        self.group3 = _stage(width, 2 * width, blocks, stride=2)
        self.group4 = _stage(2 * width, 4 * width, blocks, stride=2)
        self.features = 4 * width


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = Block(inputs, outputs, stride)
    return nn.Sequential(first, *(Block(outputs, outputs, 1) for _ in range(blocks - 1)))
