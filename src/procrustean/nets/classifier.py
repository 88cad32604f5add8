"""The one shape of network the trainer knows: a backbone that makes features, a head that makes scores."""

from __future__ import annotations

from torch import Tensor, nn


class Backbone(nn.Module):
    """A network up to its features. Its mixable layers are called `input`, `group1`, ... as in the paper."""

    features: int  # width of the feature vector
    groups: tuple[str, ...]  # mixable layers, from the image to the last feature map
    second_group: str  # where the paper mixes
    shrinks: int  # image side over the side of the last feature map


class Classifier(nn.Module):
    """head(backbone(x)). `mixable` maps the published layer names to module paths."""

    def __init__(self, backbone: Backbone, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.mixable = {name: f"backbone.{name}" for name in backbone.groups}
        self.second_group = backbone.second_group

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.backbone(x))
        return scores
