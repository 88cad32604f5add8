"""ResNets and ResNeXts (He et al. 2016, Xie et al. 2017), with the layer names of torchvision, and the ResNet-12 of the
few-shot literature (Lee et al., Meta-learning with differentiable convex optimization, 2019)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from procrustean.nets.blocks import BatchNorm
from procrustean.nets.classifier import Backbone
from procrustean.nets.noise import DropBlock, Dropout

Stem = Literal["imagenet", "s2", "s1"]
#: Kernel and stride of the first convolution, and whether a pooling layer halves the image once more.
STEMS: dict[Stem, tuple[int, int, bool]] = {"imagenet": (7, 2, True), "s2": (3, 2, False), "s1": (3, 1, False)}


class Basic(nn.Module):
    """Two 3 x 3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int, cardinality: int, group_width: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(inputs, planes, stride)
        self.bn1 = BatchNorm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = BatchNorm(planes)
        self.downsample = projection(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out)) + (x if self.downsample is None else self.downsample(x))
        result: Tensor = self.relu(out)
        return result


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (grouped in a ResNeXt, and the one with the stride) and 1 x 1 convolutions."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int, cardinality: int, group_width: int) -> None:
        super().__init__()
        inner, outputs = planes * group_width // 64 * cardinality, planes * self.expansion
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = BatchNorm(inner)
        self.conv2 = conv3x3(inner, inner, stride, cardinality)
        self.bn2 = BatchNorm(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = BatchNorm(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = projection(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out)) + (x if self.downsample is None else self.downsample(x))
        result: Tensor = self.relu(out)
        return result


class ResNet(Backbone):
    """Stem and four stages: group1 to group5.

    Args:
        blocks: residual blocks of each stage.
        bottleneck: of three convolutions each, not of two.
        stem: "imagenet", 7 x 7 with stride 2 and a pooling layer; for small images "s2" and "s1", 3 x 3 with stride
            2 or 1 and no pooling.
        channels: colour channels of the image.
        width: channels of the first stage.
        cardinality, group_width: groups of the 3 x 3 convolutions of a ResNeXt, and channels of each.
    """

    groups = {  # noqa: RUF012 (never changed)
        "input": "input",
        "group1": "maxpool",
        "group2": "layer1",
        "group3": "layer2",
        "group4": "layer3",
        "group5": "layer4",
    }
    chain = ("input", "conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")

    def __init__(
        self,
        *,
        blocks: tuple[int, int, int, int],
        bottleneck: bool = False,
        stem: Stem = "imagenet",
        channels: int = 3,
        width: int = 64,
        cardinality: int = 1,
        group_width: int = 64,
    ) -> None:
        super().__init__()
        kernel, stride, pools = STEMS[stem]
        block = Bottleneck if bottleneck else Basic
        self.input = nn.Identity()
        self.conv1 = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn1 = BatchNorm(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if pools else nn.Identity()
        inputs = width
        for number, depth in enumerate(blocks):
            planes = width * 2**number
            stage = []
            for position in range(depth):
                step = 2 if number and position == 0 else 1
                stage.append(block(inputs, planes, step, cardinality, group_width))
                inputs = planes * block.expansion
            setattr(self, f"layer{number + 1}", nn.Sequential(*stage))
        self.features = inputs
        self.shrinks = stride * (2 if pools else 1) * 8

    def initialise(self, part: nn.Module) -> None:
        """Kaiming-normal (fan-out) convolutions, as torchvision; linear layers stay as PyTorch makes them."""
        for module in part.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def conv3x3(inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, groups=groups, bias=False)


def projection(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """The shortcut of a block that changes the shape."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), BatchNorm(outputs))


class WideBlock(nn.Module):
    """Three 3 x 3 convolutions and a shortcut, then a pooling layer that halves the image."""

    def __init__(self, inputs: int, outputs: int, drop: nn.Module) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs), BatchNorm(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), BatchNorm(outputs)
        self.conv3, self.bn3 = conv3x3(outputs, outputs), BatchNorm(outputs)
        self.relu = nn.LeakyReLU(0.1, inplace=True)
        self.downsample = projection(inputs, outputs, stride=1)
        self.maxpool = nn.MaxPool2d(2)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out)) + (x if self.downsample is None else self.downsample(x))
        result: Tensor = self.drop(self.maxpool(self.relu(out)))
        return result


class ResNet12(Backbone):
    """Four wide blocks and no stem, so that the blocks themselves are group1 to group4.

    The last map is averaged; Lee et al. flatten it, which ties the network to one image size.

    Args:
        drops: dropout behind the first two blocks and DropBlock behind the others, as published.
        channels: colour channels of the image.
        widths: channels of the blocks.
    """

    groups = {  # noqa: RUF012 (never changed)
        "input": "input",
        "group1": "layer1",
        "group2": "layer2",
        "group3": "layer3",
        "group4": "layer4",
    }
    chain = tuple(groups.values())
    shrinks = 16

    def __init__(
        self, *, drops: bool = True, channels: int = 3, widths: tuple[int, int, int, int] = (64, 160, 320, 640)
    ) -> None:
        super().__init__()
        self.input = nn.Identity()
        for number, (inputs, outputs) in enumerate(zip((channels, *widths), widths, strict=False)):
            drop = (Dropout(0.1) if number < 2 else DropBlock(0.1)) if drops else nn.Identity()
            setattr(self, f"layer{number + 1}", nn.Sequential(WideBlock(inputs, outputs, drop)))
        self.features = widths[-1]

    def initialise(self, part: nn.Module) -> None:
        """Kaiming-normal (fan-out) convolutions, as published; linear layers stay as PyTorch makes them."""
        for module in part.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
