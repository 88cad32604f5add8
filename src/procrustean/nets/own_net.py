"""Networks of the user's own: FILE.py:NAME, or a module or function that was handed over in Python.

NAME is a function or class that is called with those of `channels`, `classes` and `size` (height, width) that it names,
and returns a module that makes one score per class of images [B, channels, height, width]. Its last linear layer
becomes the head, which methods may replace; what is in front of it is the backbone.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.layer_trace import evaluation_mode
from procrustean.balance.layers import suggest
from procrustean.base.errors import ConfigError, LayerError, ProcrusteanError
from procrustean.base.own_code import error_in, file_code, named_code, object_in_file
from procrustean.nets.classifier import NOT_TAKEN, Backbone, cannot_take
from procrustean.nets.foreign import ForeignBackbone, last_linear, put_in_place, replace_noise

#: Names of networks that were handed over in Python begin with it.
IN_PYTHON = "python:"
SIZE = (32, 32)  # where nobody says for which images a network is made

#: A network, or what makes one.
Net = nn.Module | Callable[..., nn.Module]

_handed_over: dict[str, Net] = {}


def use_net(net: Net) -> str:
    """Make a network usable in this process; returns the name by which settings and records call it.

    A record cannot hold the network. To resume, evaluate or load such a run in another process, call this again first.

    Args:
        net: a module, from whose weights training starts, or a function or class as in FILE.py:NAME.
    """
    if not isinstance(net, nn.Module) and not callable(net):
        raise ConfigError(
            f"net of type {type(net).__name__} received; give a torch.nn.Module or a function that makes one"
        )
    kind = net if inspect.isroutine(net) or isinstance(net, type) else type(net)
    name = f"{IN_PYTHON}{getattr(kind, '__name__', 'net')}@{hashlib.sha256(_structure(net).encode()).hexdigest()}"
    _handed_over[name] = net
    return name


def _structure(net: Net) -> str:
    """What tells a network from others, whatever its weights are."""
    if isinstance(net, nn.Module):
        return f"{net}\n" + "\n".join(f"{name} {tuple(value.shape)}" for name, value in net.state_dict().items())
    try:
        return inspect.getsource(net)
    except (OSError, TypeError):  # typed into a terminal, or built into Python
        code = getattr(net, "__code__", None)
        return repr(net) if code is None else code.co_code.hex() + repr(code.co_consts)


def is_own(name: str) -> bool:
    """Whether a network's name is that of a user's own."""
    return name.startswith(IN_PYTHON) or file_code(name) is not None


def check_own(name: str) -> None:
    """ConfigError for a network that is not at hand, or whose file the user has not named; its file is imported."""
    _source(name)


def _source(name: str) -> Any:
    if not name.startswith(IN_PYTHON):
        return object_in_file(name, "network")[2]
    if name not in _handed_over:
        shown = name.removeprefix(IN_PYTHON).partition("@")[0]
        raise ConfigError(
            f"the network {shown} was handed over in Python, and no record can hold it; hand over one of the same "
            "structure: procrustean.nets.use_net(network), or net=... of resume and evaluate"
        )
    return _handed_over[name]


def own_model(name: str, *, channels: int, classes: int, size: tuple[int, int] = SIZE) -> nn.Module:
    """The module that a name stands for, with weights from torch's generator, or a copy of the one handed over."""
    source, shown = _source(name), name.partition("@")[0]
    if isinstance(source, nn.Module):
        return copy.deepcopy(source)
    if not callable(source):
        raise ConfigError(
            f"{shown} is a {type(source).__name__}; give a function or class that makes a torch.nn.Module"
        )
    wanted = {"channels": channels, "classes": classes, "size": size}
    try:
        model = source(**{key: value for key, value in wanted.items() if key in _parameters(source)})
    except ProcrusteanError:
        raise
    except (Exception, SystemExit) as error:  # whatever the function does
        where = error_in(named_code(name)[1], error) if file_code(name) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{shown} makes no network: {where}. {_CALLED}") from error
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{shown} returned {type(model).__name__}, not a torch.nn.Module")
    return model


def module_factory(module: str, factory: str) -> nn.Module:
    """What package.module:factory makes without arguments; modules of the current folder are found."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # `python -m` does so too; an installed command does not
    try:
        made = getattr(import_module(module), factory)
        model = made if isinstance(made, nn.Module) else made()
    except (ModuleNotFoundError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{module}:{factory} makes no network ({error}); write FILE.py:NAME, or package.module:factory as it is "
            "imported here, of a function that needs no arguments"
        ) from error
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{module}:{factory} made a {type(model).__name__}, not a torch.nn.Module")
    return model


_CALLED = "It is called with those of channels, classes and size that it names; others need defaults"


def _parameters(source: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(source).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return ("channels", "classes", "size")
    return tuple(parameters)


class OwnBackbone(ForeignBackbone):
    """A user's network without its last linear layer, which is its first head."""

    def __init__(
        self, net: nn.Module, last: nn.Linear, path: str, groups: Mapping[str, str], build: Callable[[], Backbone]
    ) -> None:
        super().__init__(net, last.in_features, groups, build)
        self.head_name = f"net.{path}."
        self._last = (last,)  # in a tuple, since a module would become a part of the backbone

    def first_head(self) -> nn.Module:
        return self._last[0]


def own_backbone(name: str, *, channels: int, classes: int, size: tuple[int, int] | None) -> OwnBackbone:
    """The network that `name` stands for, without its head.

    Args:
        name: FILE.py:NAME, or what `use_net` has returned.
        channels, classes, size: of the images; size is height and width.
    """
    size, shown = size or SIZE, name.partition("@")[0]
    net = own_model(name, channels=channels, classes=classes, size=size)
    path, last = last_linear(net, shown)
    if last.out_features != classes:
        raise ConfigError(
            f"the last linear layer of {shown}, {path!r}, makes {last.out_features} scores for {classes} classes; "
            "build it from the argument `classes`"
        )
    images = torch.linspace(-1, 1, 2 * channels * size[0] * size[1]).view(2, channels, *size)
    with torch.no_grad(), evaluation_mode(net):
        try:
            scores = net(images)
        except NOT_TAKEN as error:
            raise cannot_take(shown, size, error) from error
        put_in_place(net, path, nn.Identity())
        features = net(images)
    if not _same(scores, features, last):
        raise ConfigError(
            f"{shown} changes what its last linear layer, {path!r}, returns or is handed; let it return the scores of "
            "that layer, without a softmax"
        )
    replace_noise(net, shown)

    def again() -> Backbone:
        return own_backbone(name, channels=channels, classes=classes, size=size)

    return OwnBackbone(net, last, path, _groups(net, images), again)


def _same(scores: object, features: object, last: nn.Linear) -> bool:
    """Whether the scores are what the last layer makes of the features."""
    if not isinstance(scores, Tensor) or not isinstance(features, Tensor):
        return False
    if features.shape != (len(scores), last.in_features):
        return False
    made: Tensor = last(features)
    return made.shape == scores.shape and torch.allclose(made, scores, rtol=1e-3, atol=1e-4)


def _groups(net: nn.Module, images: Tensor) -> Mapping[str, str]:
    """Where groups of layers end; none where the network cannot be read, and whoever mixes names a layer."""
    try:
        return suggest(net, images).groups
    except LayerError:
        return {}
