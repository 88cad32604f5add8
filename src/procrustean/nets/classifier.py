"""The one shape of network the trainer knows: a backbone that makes features, a head that makes scores."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from procrustean.base.errors import ConfigError


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


class Classifier(nn.Module):
    """head(backbone(x))."""

    def __init__(self, backbone: Backbone, head: nn.Module, pretrained: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.pretrained = pretrained  # what the backbone started from, if not from random weights

    @property
    def mixable(self) -> dict[str, str]:
        """Published layer names and the paths of the modules they stand for."""
        return {name: f"backbone.{child}" for name, child in self.backbone.groups.items()}

    @property
    def second_group(self) -> str:
        """Where the paper mixes."""
        return self.backbone.second_group

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.backbone(x))
        return scores


def with_own_names(*names: str) -> dict[str, str]:
    """Mixable layers of a network whose children are called as the paper calls the groups."""
    return {name: name for name in names}


def check_chain(backbone: Backbone, wanted: str) -> None:
    """ConfigError for a network whose last layers cannot be taken apart."""
    if not backbone.chain:
        raise ConfigError(
            f"this method makes {wanted}; only this library's networks can be taken apart for that, those with -2d "
            "excepted, for example --net resnet18 or resnet50 (procrustean nets lists them)"
        )
