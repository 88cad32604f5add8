"""ResNet-12 of the few-shot literature (Lee et al., Meta-learning with differentiable convex optimization, 2019)."""

from __future__ import annotations

from torch import Tensor, nn

from procrustean.nets.blocks import BatchNorm
from procrustean.nets.classifier import Backbone
from procrustean.nets.noise import DropBlock, Dropout
from procrustean.nets.resnet import conv3x3, projection


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
