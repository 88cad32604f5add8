"""Networks of timm and torchvision by name, as backbones: `timm:convnext_tiny`, `torchvision:resnet18`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.layers import suggest
from procrustean.base.errors import ConfigError, LayerError, did_you_mean
from procrustean.base.optional_libraries import optional
from procrustean.base.own_code import file_meant
from procrustean.nets.classifier import Backbone
from procrustean.nets.noise import Dropout, DropPath

LIBRARIES = ("timm", "torchvision")

#: Side of the images that torchvision's networks are made for.
_USUAL_SIZE = 224


class ForeignBackbone(Backbone):
    """A network of another library without its last linear layer; its layers keep their names, below `net`.

    Its layers that drop at random are replaced by ones whose numbers belong to the run.
    """

    chain = ()

    def __init__(self, net: nn.Module, features: int, groups: Mapping[str, str], build: Callable[[], Backbone]) -> None:
        super().__init__()
        self.input = nn.Identity()
        self.net = net
        self.features = features
        self.groups = {"input": "input", **{name: f"net.{path}" for name, path in groups.items()}}
        # Only batch normalisation minds a last map of a single pixel, and most halve the image five times.
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
        net, features, example = _of_timm(model, channels, size)
    else:
        net, features, example = _of_torchvision(model, channels)
    replace_noise(net, name)
    groups = groups_of(net, example)
    return ForeignBackbone(net, features, groups, lambda: foreign_backbone(name, channels=channels, size=size))


def check_foreign(name: str) -> None:
    """ConfigError for a network that the other library does not have, or a library that is not there."""
    library, _, model = name.partition(":")
    if library not in LIBRARIES:
        libraries = f"before the colon stands the library it comes from: {' or '.join(LIBRARIES)}"
        raise ConfigError(f"network {name!r} received; {libraries}. {file_meant(name)}".rstrip(". "))
    if library == "timm":
        timm = imported("timm")
        if not timm.is_model(model):
            raise ConfigError(f"timm has no network {model!r}. {did_you_mean(model, timm.list_models())}")
    else:
        models = imported("torchvision").models
        known = models.list_models(module=models)
        if model not in known:
            raise ConfigError(f"torchvision has no classifier {model!r}. {did_you_mean(model, known)}")


def whole_model(library: str, name: str) -> tuple[nn.Module, int]:
    """A network as the other library makes it, head included, and the side of the images it is made for."""
    if library == "timm":
        model: nn.Module = imported("timm").create_model(name, pretrained=False)
        made_for = getattr(model, "pretrained_cfg", {}).get("input_size", (3, _USUAL_SIZE, _USUAL_SIZE))
        return model, int(made_for[-1])
    # These two warn unless they are told whether to draw initial weights of their own kind, which is slow.
    settings = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return imported("torchvision").models.get_model(name, weights=None, **settings), _USUAL_SIZE


def imported(library: str) -> Any:
    """timm or torchvision, or a ConfigError that says how to get it."""
    return optional(library, "nets", f"a network of {library}")


def groups_of(net: nn.Module, example: tuple[int, int, int]) -> Mapping[str, str]:
    """Where the groups end, by the rule for any model; none where the network cannot be read."""
    try:
        return suggest(copy.deepcopy(net).to("meta"), torch.empty(2, *example, device="meta")).groups
    except (RuntimeError, ValueError, AssertionError, TypeError, LayerError):
        return {}  # whoever mixes names a layer; whether it takes the images at hand is looked at later


def _of_timm(model: str, channels: int, size: tuple[int, int] | None) -> tuple[nn.Module, int, tuple[int, int, int]]:
    timm = imported("timm")
    fixed = bool(size) and bool(getattr(timm.get_pretrained_cfg(model), "fixed_input_size", False))
    try:
        net = timm.create_model(model, num_classes=0, in_chans=channels, **({"img_size": size} if fixed else {}))
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        shown = "" if size is None else f" of {size[1]} x {size[0]} pixels"
        raise ConfigError(f"timm cannot make {model!r} for images{shown} with {channels} channels: {error}") from error
    features = int(getattr(net, "head_hidden_size", None) or net.num_features)
    # What a network of any size is read with is what it was made for, as in small images its last maps vanish.
    made_for = tuple(getattr(net, "pretrained_cfg", {}).get("input_size", (3, _USUAL_SIZE, _USUAL_SIZE)))[1:]
    height, width = size if fixed and size else made_for
    return net, features, (channels, int(height), int(width))


def _of_torchvision(model: str, channels: int) -> tuple[nn.Module, int, tuple[int, int, int]]:
    if channels != 3:
        raise ConfigError(
            f"torchvision:{model} takes images of 3 channels, and these have {channels}; choose a network of this "
            "library or of timm"
        )
    net: nn.Module = imported("torchvision").models.get_model(model, weights=None)
    path, last = last_linear(net, f"torchvision:{model}")
    put_in_place(net, path, nn.Identity())
    return net, last.in_features, (channels, _USUAL_SIZE, _USUAL_SIZE)


def last_linear(net: nn.Module, name: str) -> tuple[str, nn.Linear]:
    """The last linear layer of a network, which makes the scores, and its path."""
    linear = [(path, module) for path, module in net.named_modules() if isinstance(module, nn.Linear) and path]
    if not linear:
        raise ConfigError(f"{name} has no linear layer, which the methods work on; it has to end with nn.Linear")
    return linear[-1]


def put_in_place(net: nn.Module, path: str, layer: nn.Module) -> None:
    """Make a layer the one that stands at a path of the network."""
    above, _, name = path.rpartition(".")
    setattr(net.get_submodule(above), name, layer)


def replace_noise(net: nn.Module, name: str) -> None:
    """Put layers whose random numbers belong to the run in the place of those that drop at random."""
    for path, module in list(net.named_modules()):
        own: nn.Module | None = None
        kind = type(module).__name__
        if type(module) is nn.Dropout and module.p:
            own = Dropout(module.p)
        elif kind == "StochasticDepth" and module.mode == "row" and module.p:
            own = DropPath(float(module.p))
        elif kind.endswith("DropPath") and module.drop_prob:  # each model of transformers has its own
            own = DropPath(float(module.drop_prob), scaled=bool(getattr(module, "scale_by_keep", True)))
        elif (isinstance(module, nn.modules.dropout._DropoutNd) or kind == "StochasticDepth") and module.p:
            raise ConfigError(f"{name} has a {kind} layer whose random numbers would not be the run's; choose another")
        if own is not None:
            put_in_place(net, path, own)
