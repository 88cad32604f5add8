"""ResNets for 32 x 32 images (He et al. 2016, Sec. 4.2), the variant of the imbalanced-CIFAR literature.

Also with group normalisation (Wu, He 2018) instead, which has no statistics of batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.nets.blocks import ConvGroupNormReLU, ConvNormReLU
from procrustean.nets.classifier import Backbone, with_own_names


class Shortcut(nn.Module):
    """Option A: every second pixel, new channels filled with zeros on both sides; no parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        # Averages of single pixels are the pixels; unlike a slice's, their gradient is one kernel and keeps its layout.
        return F.pad(F.avg_pool2d(x, 1, self.stride), (0, 0, 0, 0, self.before, self.after))


class Block(nn.Module):
    """Two 3 x 3 convolutions with their normalisation, the second added to the shortcut before its ReLU."""

    def __init__(self, unit: Callable[..., nn.Module], inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = unit(inputs, outputs, stride)
        self.second = unit(outputs, outputs)
        changes = stride != 1 or inputs != outputs
        self.shortcut = Shortcut(inputs, outputs, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x), self.shortcut(x))
        return out


class BatchNormBlock(Block):
    """The block with batch normalisation, which hand-written kernels can compute as a whole."""

    first: ConvNormReLU
    second: ConvNormReLU

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(ConvNormReLU, inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        return self._fused_forward(x) if self._can_fuse(x) else super().forward(x)

    def _can_fuse(self, x: Tensor) -> bool:
        hooked = any(m._forward_hooks or m._forward_pre_hooks for m in (self.first, self.second, self.shortcut))
        if hooked or not isinstance(self.shortcut, nn.Identity):
            return False
        return self.first.can_fuse(x) and self.second.can_fuse(x)

    def _fused_forward(self, x: Tensor) -> Tensor:
        from procrustean.nets.kernels.conv_bn_relu import ResidualBlock

        units = (self.first, self.second)
        parameters = [p for unit in units for p in (unit.conv.weight, unit.norm.weight, unit.norm.bias)]
        x = x.contiguous(memory_format=torch.channels_last)
        out: Tensor = ResidualBlock.apply(x, *parameters, *(unit.kernel_norm() for unit in units))  # type: ignore[no-untyped-call]
        return out


class ResNetCifar(Backbone):
    """Stem and three stages of `blocks` residual blocks: group1 to group4 of the paper."""

    groups = with_own_names("input", "group1", "group2", "group3", "group4")
    chain = tuple(groups)
    shrinks = 4

    def __init__(self, *, blocks: int, channels: int = 3, width: int = 16) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.group1 = self.stem(channels, width)
        self.group2 = self._stage(width, width, blocks, stride=1)
        self.group3 = self._stage(width, 2 * width, blocks, stride=2)
        self.group4 = self._stage(2 * width, 4 * width, blocks, stride=2)
        self.features = 4 * width

    def _stage(self, inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
        first = self.block(inputs, outputs, stride)
        return nn.Sequential(first, *(self.block(outputs, outputs, 1) for _ in range(blocks - 1)))

    def stem(self, inputs: int, outputs: int) -> nn.Module:
        """The first layer."""
        return ConvNormReLU(inputs, outputs)

    def block(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """One of the residual blocks."""
        return BatchNormBlock(inputs, outputs, stride)


class GroupNormResNet(ResNetCifar):
    """The same network layer for layer, with group normalisation: four groups, of 4 to 16 channels each."""

    shrinks = 0  # only batch normalisation minds a last map of a single pixel
    unit = staticmethod(partial(ConvGroupNormReLU, groups=4))

    def stem(self, inputs: int, outputs: int) -> nn.Module:
        return self.unit(inputs, outputs)

    def block(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        return Block(self.unit, inputs, outputs, stride)
