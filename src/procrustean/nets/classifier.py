"""The one shape of network the trainer knows: a backbone that makes features, a head that makes scores; heads."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean.balance.class_tensors import widened
from procrustean.base.errors import ConfigError
from procrustean.base.own_code import code_name
from procrustean.data.recipe import Tune


class Backbone(nn.Module):
    """A network up to its features: a chain of children, then a mean over the pixels.

    Its mixable layers are called `input`, `group1`, ... as in the paper, whatever the children are called.
    """

    features: int  # width of the feature vector, and channels of the last feature map
    groups: Mapping[str, str]  # mixable layer -> module behind which it ends, from the image to the last feature map
    second_group: str = "group2"  # where the paper mixes
    shrinks: int  # image side over the side of the last feature map
    chain: tuple[str, ...]  # children from the image to the last feature map; empty if it cannot be taken apart
    fork: int = 1  # how many children at the end of the chain belong to the part that a second branch repeats

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x).mean((2, 3))

    def map(self, x: Tensor) -> Tensor:
        """The last feature map, [B, features, H, W]."""
        for name in self.chain:
            x = getattr(self, name)(x)
        return x

    def initialise(self, part: nn.Module) -> None:
        """Initial weights of a part of the network, or of its linear head, from torch's generator.

        Kaiming-normal (fan-in) weights of convolutions and linear layers; biases stay.
        """
        for module in part.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def rebuilt(self) -> Backbone | None:
        """A new one with initial weights from torch's generator, if it takes more than `initialise` to make one."""
        return None

    def first_head(self) -> nn.Module | None:
        """The head that the network itself begins with, where the method brings none; None for a new linear layer."""
        return None

    def published_name(self, key: str) -> str:
        """The name here of an entry of a state dict that was published for this architecture."""
        return key


class Centred(nn.Module):
    """Features less their mean over the training images, each brought to the length sqrt(width)."""

    mean: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    @torch.no_grad()
    def measure(self, features: Tensor) -> None:
        """Take the mean from features [n, width] of the training images."""
        self.mean.copy_(features.mean(0))

    def forward(self, features: Tensor) -> Tensor:
        centred: Tensor = F.normalize(features - self.mean) * math.sqrt(features.shape[1])
        return centred


class FeatureLayers:
    """The layers of a network whose head alone is trained: its features, which are the input of that training too."""

    groups: Mapping[str, str] = MappingProxyType({"input": "features", "features": "features"})
    second_group = "features"
    shrinks = 1


class Classifier(nn.Module):
    """head(features(backbone(x))).

    Args:
        backbone: from images to features.
        head: from features to scores.
        pretrained: what the backbone starts from, if not from random weights.
        tune: what of it is to learn; a head alone does so on centred features.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: nn.Module,
        pretrained: Mapping[str, Tensor] | None = None,
        *,
        tune: Tune = "all",
    ) -> None:
        super().__init__()
        self.backbone, self.tune = backbone, tune
        self.features = Centred(backbone.features) if tune == "head" else nn.Identity()
        self.head = head
        self.pretrained = pretrained

    @property
    def mixable(self) -> dict[str, str]:
        """Published layer names and the paths of the modules they stand for."""
        if self.head_alone:
            return dict(FeatureLayers.groups)
        return {name: f"backbone.{child}" for name, child in self.backbone.groups.items()}

    @property
    def head_alone(self) -> bool:
        """Whether the head alone is trained."""
        return self.tune == "head"

    @property
    def second_group(self) -> str:
        """Where the paper mixes."""
        return FeatureLayers.second_group if self.head_alone else self.backbone.second_group

    def features_of(self, x: Tensor) -> Tensor:
        """What the head is shown, [B, features], of images or of what the backbone has made of them beforehand."""
        features: Tensor = self.features(x if x.dim() == 2 else self.backbone(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features_of(x))
        return scores


class CosineHead(nn.Module):
    """Cosine between the feature and a vector per class, without bias (Cao et al. 2019)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        # Uniform directions of unit length, as in the original.
        self.weight = nn.Parameter(F.normalize(torch.empty(classes, features).uniform_(-1, 1), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        # Norms in float32 at least: under autocast the sum of squares would lose most of its digits.
        with torch.autocast(features.device.type, enabled=False):
            wide = widened(features)
            return F.linear(F.normalize(wide, dim=1), F.normalize(self.weight.to(wide.dtype), dim=1))


class SigmoidHead(nn.Linear):
    """A linear layer for losses of one sigmoid per class: its biases start at -log(C - 1) (Cui et al. 2019).

    Every class then starts with a probability of about 1 / C; with biases of 0 the C - 1 wrong classes of each sample,
    at 1/2 each, would make up most of the first gradients.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        nn.init.constant_(self.bias, -math.log(max(classes - 1, 1)))


class ScaledHead(nn.Module):
    """A linear head whose scores, the bias included, are multiplied by a learnable factor per class, 1 at first."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.scale = nn.Parameter(torch.ones(linear.out_features))

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.scale * self.linear(features)
        return scores


def with_scales(net: Classifier) -> None:
    """Give the linear head of a network its factors; what it has learnt stays."""
    assert isinstance(net.head, nn.Linear)
    net.head = ScaledHead(net.head)


def with_own_names(*names: str) -> dict[str, str]:
    """Mixable layers of a network whose children are called as the paper calls the groups."""
    return {name: name for name in names}


def check_chain(backbone: Backbone, wanted: str) -> None:
    """ConfigError for a network whose last layers cannot be taken apart."""
    if not backbone.chain:
        raise ConfigError(
            f"this method makes {wanted}; only this library's networks can be taken apart for that, those with -2d "
            "excepted, for example --net resnet18 or resnet50 (procrustean list nets lists them)"
        )


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
    try:
        found = _shape_of(copy.deepcopy(net.backbone).cpu().train(), torch.zeros(2, channels, *size))
    except NOT_TAKEN as error:
        raise cannot_take(name, size, error) from error
    if found != (2, net.backbone.features):
        raise ConfigError(
            f"the network {name} gives {found} for two images instead of two features of {net.backbone.features} "
            "numbers, so it cannot be trained here; choose another --net"
        )


@torch.no_grad()
def check_scores(net: Classifier, classes: int) -> None:
    """ConfigError for a head that does not turn the features of an image into one score for each class."""
    features = net.backbone.features
    try:
        found = _shape_of(copy.deepcopy(net.head).cpu().eval(), torch.zeros(2, features))
    except NOT_TAKEN as error:
        raise ConfigError(
            f"the head {code_name(net.head)} cannot take {features} features of each of two images: {error}; build it "
            "from the two numbers that it is given, features and classes"
        ) from error
    if found != (2, classes):
        raise ConfigError(
            f"the head {code_name(net.head)} gives {found} for two images of {classes} classes instead of (2, "
            f"{classes}), a score for each class; build it from the two numbers that it is given, features and classes"
        )


def _shape_of(part: nn.Module, x: Tensor) -> tuple[int, ...] | str:
    """The shape of what a part of a network makes of a tensor; what it is, if it is none."""
    with torch.random.fork_rng(devices=()):  # dropout draws
        made = part(x)
    return tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
