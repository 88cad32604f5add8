"""EfficientNet-Lite: EfficientNet (Tan, Le 2019) without squeeze-and-excitation, with ReLU6, and with a stem, a head, a
first and a last stage that the scaling leaves alone."""

from __future__ import annotations

import math
import re

import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.nets.blocks import BatchNorm
from procrustean.nets.classifier import Backbone
from procrustean.nets.noise import DropPath

#: Of each stage before scaling: kernel, stride, expansion, channels, blocks.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM, FEATURES = 32, 1280
#: Share of the residual branches that the last block drops; it grows linearly from the first.
DROPPED = 0.2

#: Parts of a unit's name in the published files -> here.
_STEM_AND_LAST = {"_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "last.conv", "_bn1": "last.norm"}
_IN_BLOCK = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


class SameConv(nn.Conv2d):
    """Padded as in TensorFlow: the output has 1/stride of the side, rounded up, and an odd pixel is added behind."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] == 1:
            return super().forward(x)
        (top, bottom), (left, right) = (self._padding_of(side) for side in x.shape[-2:])
        return super().forward(F.pad(x, (left, right, top, bottom)))

    def _padding_of(self, side: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        pixels = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
        return pixels // 2, pixels - pixels // 2


class Unit(nn.Module):
    """Convolution, batch normalisation and, where wanted, ReLU6."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, *, linear: bool = False
    ) -> None:
        super().__init__()
        self.conv = SameConv(inputs, outputs, kernel, stride, groups)
        self.norm = BatchNorm(outputs, eps=1e-3, momentum=0.01)
        self.activation = nn.Identity() if linear else nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.activation(self.norm(self.conv(x)))
        return z


class MBConv(nn.Module):
    """Widen, convolve each channel alone, narrow; the input is added where the shape has not changed."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int, dropped: float) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = Unit(inputs, inner) if expansion > 1 else nn.Identity()
        self.depthwise = Unit(inner, inner, kernel, stride, groups=inner)
        self.project = Unit(inner, outputs, linear=True)
        self.adds = stride == 1 and inputs == outputs
        self.drop = DropPath(dropped) if self.adds else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.drop(self.project(self.depthwise(self.expand(x))))
        return x + z if self.adds else z


class EfficientNetLite(Backbone):
    """Stem, seven stages and a 1 x 1 convolution, which is in one group with the last stage: group1 to group8.

    Args:
        width: factor of the channels of the stages, which are rounded to multiples of 8.
        depth: factor of the number of blocks of the second to the sixth stage, rounded up.
        channels: colour channels of the image.
    """

    chain = ("input", "stem", *(f"stage{number}" for number in range(1, 8)), "last")
    groups = {  # noqa: RUF012 (never changed)
        "input": "input",
        "group1": "stem",
        **{f"group{number + 1}": f"stage{number}" for number in range(1, 7)},
        "group8": "last",
    }
    fork = 2
    shrinks = 32

    def __init__(self, *, width: float = 1.0, depth: float = 1.0, channels: int = 3) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.stem = Unit(channels, STEM, 3, stride=2)
        scaled = range(1, len(STAGES) - 1)
        self.blocks = [
            math.ceil(count * depth) if stage in scaled else count for stage, (*_, count) in enumerate(STAGES)
        ]
        inputs, number = STEM, 0
        for stage, (kernel, stride, expansion, planes, _) in enumerate(STAGES):
            outputs, blocks = _rounded(planes * width), []
            for position in range(self.blocks[stage]):
                dropped = DROPPED * number / sum(self.blocks)
                blocks.append(MBConv(inputs, outputs, kernel, 1 if position else stride, expansion, dropped))
                inputs, number = outputs, number + 1
            setattr(self, f"stage{stage + 1}", nn.Sequential(*blocks))
        self.last = Unit(inputs, FEATURES)
        self.features = FEATURES

    def initialise(self, part: nn.Module) -> None:
        """Normal (fan-out of each channel's own group) convolutions; linear layers stay as PyTorch makes them."""
        for module in part.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.weight[0, 0].numel() * module.out_channels // module.groups
                nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))

    def published_name(self, key: str) -> str:
        block = re.match(r"_blocks\.(\d+)\.(\w+)\.", key)
        if block is None:
            part, _, rest = key.partition(".")
            return f"{_STEM_AND_LAST.get(part, part.removeprefix('_'))}.{rest}"
        stage, position = 1, int(block[1])
        for count in self.blocks:
            if position < count:
                break
            stage, position = stage + 1, position - count
        return f"stage{stage}.{position}.{_IN_BLOCK.get(block[2], block[2])}.{key[block.end() :]}"


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, but never less than nine tenths of what is wanted."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
