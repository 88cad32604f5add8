"""Try a network on images of a size, and its head on features."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from procrustean.base.errors import ConfigError
from procrustean.base.own_code import code_name
from procrustean.nets.classifier import Classifier

#: What networks raise on images of a size that they were not made for.
NOT_TAKEN = (RuntimeError, ValueError, AssertionError, TypeError)


def cannot_take(name: str, size: tuple[int, int], error: Exception) -> ConfigError:
    """What is said of a network that raises an error on images of a height and width."""
    return ConfigError(
        f"the network {name} cannot take images of {size[1]} x {size[0]} pixels: {error}. Choose another --net "
        "(procrustean list nets) or --image-size"
    )


@torch.no_grad()
def check_size(net: Classifier, channels: int, size: tuple[int, int], name: str) -> None:
    """ConfigError for images that the network cannot take, or a network that gives something else than features.

    Args:
        net: the network; it is left as it is.
        channels: of the images.
        size: height and width of the images.
        name: the network's, for the message.
    """
    # Two images on the host. Tensors without values would do as well, but with them PyTorch imports its compiler, which
    # takes longer than computing this.
    trial = copy.deepcopy(net.backbone).cpu().train()
    try:
        with torch.random.fork_rng(devices=()):  # dropout draws
            features = trial(torch.zeros(2, channels, *size))
    except NOT_TAKEN as error:
        raise cannot_take(name, size, error) from error
    found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
    if found != (2, net.backbone.features):
        raise ConfigError(
            f"the network {name} gives {found} for two images instead of two features of {net.backbone.features} "
            "numbers, so it cannot be trained here; choose another --net"
        )


@torch.no_grad()
def check_scores(net: Classifier, classes: int) -> None:
    """ConfigError for a head that does not turn the features of an image into one score for each class."""
    head = copy.deepcopy(net.head).cpu().eval()
    features = net.backbone.features
    try:
        with torch.random.fork_rng(devices=()):
            scores = head(torch.zeros(2, features))
    except NOT_TAKEN as error:
        raise ConfigError(
            f"the head {code_name(net.head)} cannot take {features} features of each of two images: {error}; build it "
            "from the two numbers that it is given, features and classes"
        ) from error
    found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    if found != (2, classes):
        raise ConfigError(
            f"the head {code_name(net.head)} gives {found} for two images of {classes} classes instead of (2, "
            f"{classes}), a score for each class; build it from the two numbers that it is given, features and classes"
        )
