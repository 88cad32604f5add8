"""The table of networks: which class of which file in this folder each name stands for, and its settings."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from procrustean.nets.classifier import Backbone


def family(file: str, backbone: str, **settings: Any) -> Callable[..., Backbone]:
    """Makes the backbones of a line of the table.

    Args:
        file: module of this folder; it is imported when the first network of it is built.
        backbone: what is called there, with `channels`, the number of colour channels.
        settings: the other arguments of the call.
    """

    def build(*, channels: int) -> Backbone:
        made: Callable[..., Backbone] = getattr(import_module(f"procrustean.nets.{file}"), backbone)
        return made(channels=channels, **settings)

    return build


def _with_stems(name: str, file: str, backbone: str, **settings: Any) -> dict[str, Callable[..., Backbone]]:
    """A network for large images, and behind its name -s2 and -s1 for the stems for small ones."""
    stems = {"": "imagenet", "-s2": "s2", "-s1": "s1"}
    return {name + suffix: family(file, backbone, stem=stem, **settings) for suffix, stem in stems.items()}


NETS: dict[str, Callable[..., Backbone]] = {
    "resnet20": family("resnet_cifar", "ResNetCifar", blocks=3),
    "resnet32": family("resnet_cifar", "ResNetCifar", blocks=5),
    "resnet44": family("resnet_cifar", "ResNetCifar", blocks=7),
    "resnet56": family("resnet_cifar", "ResNetCifar", blocks=9),
    "resnet20-gn": family("resnet_cifar", "GroupNormResNet", blocks=3),
    "resnet32-gn": family("resnet_cifar", "GroupNormResNet", blocks=5),
    "convnet-ln": family("small", "LayerNormNet"),
    "small": family("small", "SmallNet"),
    "convnet": family("small", "ConvNet"),
    "resnet12": family("resnet", "ResNet12"),
    "resnet12-plain": family("resnet", "ResNet12", drops=False),
    **_with_stems("resnet10", "resnet", "ResNet", blocks=(1, 1, 1, 1)),
    **_with_stems("resnet18", "resnet", "ResNet", blocks=(2, 2, 2, 2)),
    **_with_stems("resnet50", "resnet", "ResNet", bottleneck=True, blocks=(3, 4, 6, 3)),
    **_with_stems("resnext50", "resnet", "ResNet", bottleneck=True, blocks=(3, 4, 6, 3), cardinality=32, group_width=4),
    **_with_stems("densenet121", "densenet", "DenseNet", blocks=(6, 12, 24, 16)),
    "efficientnet_lite0": family("efficientnet_lite", "EfficientNetLite"),
    "efficientnet_lite1": family("efficientnet_lite", "EfficientNetLite", depth=1.1),
    "efficientnet_lite2": family("efficientnet_lite", "EfficientNetLite", width=1.1, depth=1.2),
    # With features of width 2, as in the paper's illustration.
    "resnet32-2d": family("projected", "projected", net="resnet32"),
    "small-2d": family("projected", "projected", net="small"),
}
