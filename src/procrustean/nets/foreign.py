"""Networks of timm and torchvision by name, as backbones: `timm:convnext_tiny`, `torchvision:resnet18`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError, did_you_mean
from .classifier import Backbone
from .noise import Dropout, DropPath

LIBRARIES = ("timm", "torchvision")

#: Where the groups of torchvision's networks end, by the name of their class: the stem, then the stages.
_STAGES: dict[str, tuple[str, ...]] = {
    "ResNet": ("maxpool", "layer1", "layer2", "layer3", "layer4"),
    "DenseNet": ("features.pool0", *(f"features.denseblock{n}" for n in (1, 2, 3)), "features.norm5"),
    "ConvNeXt": tuple(f"features.{n}" for n in (0, 1, 3, 5, 7)),
    "SwinTransformer": tuple(f"features.{n}" for n in (0, 1, 3, 5, 7)),
    "EfficientNet": tuple(f"features.{n}" for n in range(8)),
    "RegNet": ("stem", *(f"trunk_output.block{n}" for n in (1, 2, 3, 4))),
    "ShuffleNetV2": ("maxpool", "stage2", "stage3", "stage4"),
}


class ForeignBackbone(Backbone):
    """A network of another library without its last linear layer; its layers keep their names, below `net`.

    Its layers that drop at random are replaced by ones whose numbers belong to the run.
    """

    chain = ()

    def __init__(self, net: nn.Module, features: int, stages: Sequence[str], build: Callable[[], Backbone]) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.net = net
        self.features = features
        self.groups = {"input": "input", **{f"group{n}": f"net.{path}" for n, path in enumerate(stages, 1)}}
        # Only batch normalisation minds a last map of a single pixel, and these halve the image five times.
        self.shrinks = 32 if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules()) else 0
        self._build = build

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.net(self.input(x))
        return features

    def initialise(self, part: nn.Module) -> None:
        """Nothing: the other library has done it."""

    def rebuilt(self) -> Backbone:
        return self._build()

    def published_name(self, key: str) -> str:
        return f"net.{key}"


def foreign_backbone(name: str, *, channels: int = 3, size: tuple[int, int] | None = None) -> ForeignBackbone:
    """The network that `name` stands for, with initial weights from torch's generator.

    Args:
        name: "timm:NAME" or "torchvision:NAME".
        channels: colour channels of the image.
        size: height and width of the image, for networks made for one size.
    """
    library, _, model = name.partition(":")
    check_foreign(name)
    if library == "timm":
        net, features, stages = _of_timm(model, channels, size)
    else:
        net, features, stages = _of_torchvision(model, channels)
    _use_own_noise(net, name)
    return ForeignBackbone(net, features, stages, lambda: foreign_backbone(name, channels=channels, size=size))


def check_foreign(name: str) -> None:
    """ConfigError for a network that the other library does not have, or a library that is not there."""
    library, _, model = name.partition(":")
    if library not in LIBRARIES:
        raise ConfigError(
            f"network {name!r} received; before the colon stands the library it comes from: {' or '.join(LIBRARIES)}"
        )
    if library == "timm":
        timm = imported("timm")
        if not timm.is_model(model):
            raise ConfigError(f"timm has no network {model!r}. {did_you_mean(model, timm.list_models())}")
    else:
        models = imported("torchvision").models
        known = models.list_models(module=models)
        if model not in known:
            raise ConfigError(f"torchvision has no classifier {model!r}. {did_you_mean(model, known)}")


def imported(library: str) -> Any:
    """timm or torchvision, or a ConfigError that says how to get it."""
    try:
        return import_module(library)
    except ImportError as error:
        raise ConfigError(
            f"networks of {library} need it installed ({error}): pip install -c constraints.txt '.[nets]'"
        ) from error
    except RuntimeError as error:
        # What torchvision does beside a torch that it was not built for, and timm, which imports it.
        raise ConfigError(
            f"{library} is installed, but torchvision does not fit torch {torch.__version__} ({error}); install the "
            "torchvision that was built for it, from the same place as torch"
        ) from error


def _of_timm(model: str, channels: int, size: tuple[int, int] | None) -> tuple[nn.Module, int, list[str]]:
    timm = imported("timm")
    fixed = bool(size) and bool(getattr(timm.get_pretrained_cfg(model), "fixed_input_size", False))
    try:
        net = timm.create_model(model, num_classes=0, in_chans=channels, **({"img_size": size} if fixed else {}))
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        shown = "" if size is None else f" of {size[1]} x {size[0]} pixels"
        raise ConfigError(f"timm cannot make {model!r} for images{shown} with {channels} channels: {error}") from error
    features = int(getattr(net, "head_hidden_size", None) or net.num_features)
    modules = {path for path, _ in net.named_modules()}
    listed = [entry["module"] for entry in getattr(net, "feature_info", []) if entry["module"] in modules]
    return net, features, _with_stem(net, _at_most_four(listed) if len(listed) > 6 else listed)


def _with_stem(net: nn.Module, listed: list[str]) -> list[str]:
    """The stages with the stem in front of them, where timm lists the stages alone."""
    if not listed:
        return []
    layers = sum(isinstance(m, nn.Conv2d | nn.Linear) for m in net.get_submodule(listed[0]).modules())
    before = ""
    for child, _ in net.named_children():
        if listed[0].partition(".")[0] == child:
            break
        before = child
    return listed if layers < 2 or not before else [before, *listed]


def _at_most_four(blocks: list[str]) -> list[str]:
    """Four of many equal blocks, at equal distances, the last included: the ends of quarters of the network."""
    return [blocks[quarter * len(blocks) // 4 - 1] for quarter in (1, 2, 3, 4)]


def _of_torchvision(model: str, channels: int) -> tuple[nn.Module, int, list[str]]:
    if channels != 3:
        raise ConfigError(
            f"torchvision:{model} takes images of 3 channels, and these have {channels}; choose a network of this "
            "library or of timm"
        )
    net: nn.Module = imported("torchvision").models.get_model(model, weights=None)
    linear = [name for name, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(f"torchvision:{model} does not end in a linear layer, which the methods work on")
    path, _, last = linear[-1].rpartition(".")
    parent = net.get_submodule(path)
    features = int(getattr(parent, last).in_features)
    setattr(parent, last, nn.Identity())
    return net, features, _torchvision_stages(net)


def _torchvision_stages(net: nn.Module) -> list[str]:
    kind = type(net).__name__
    if kind == "VisionTransformer":
        blocks = [f"encoder.layers.{name}" for name, _ in net.get_submodule("encoder.layers").named_children()]
        return ["conv_proj", *_at_most_four(blocks)]
    if kind in ("VGG", "AlexNet"):
        named = net.get_submodule("features").named_children()
        return [f"features.{name}" for name, layer in named if isinstance(layer, nn.MaxPool2d)]
    return list(_STAGES.get(kind, ()))


def _use_own_noise(net: nn.Module, name: str) -> None:
    for path, module in list(net.named_modules()):
        own: nn.Module | None = None
        kind = type(module).__name__
        if type(module) is nn.Dropout and module.p:
            own = Dropout(module.p)
        elif kind == "StochasticDepth" and module.mode == "row" and module.p:
            own = DropPath(float(module.p))
        elif kind == "DropPath" and module.drop_prob:
            own = DropPath(float(module.drop_prob), scaled=bool(module.scale_by_keep))
        elif (isinstance(module, nn.modules.dropout._DropoutNd) or kind == "StochasticDepth") and module.p:
            raise ConfigError(f"{name} has a {kind} layer whose random numbers would not be the run's; choose another")
        if own is not None:
            above, _, last = path.rpartition(".")
            setattr(net.get_submodule(above), last, own)
