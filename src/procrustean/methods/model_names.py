"""Models by name: this library's networks, those of torchvision and timm, and anybody's factory."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from procrustean.base.code_files import FileMethod, file_method, read_code
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.import_file import imported
from procrustean.base.optional_libraries import installing, why_not_imported
from procrustean.nets.build import NETS, build_net

#: Side of the images a model is tried on where it does not say what it is made for.
OWN_SIZE, USUAL_SIZE = 32, 224


def model_by_name(name: str, *, channels: int = 3) -> tuple[nn.Module, int]:
    """A model with random weights, and the side of the images it is made for.

    Args:
        name: a network of this library (resnet32), `torchvision:NAME`, `timm:NAME`, or `FILE.py:NAME` or
            `package.module:factory`, a function or class that is called without arguments; modules of the current
            folder are found.
        channels: colour channels, for the networks of this library.
    """
    own = file_method(name)
    if own is not None and own.path.endswith(".py"):
        return _from_file(own), USUAL_SIZE
    where, colon, what = name.partition(":")
    if not colon:
        if name not in NETS:
            raise ConfigError(
                f"there is no network {name!r}. {did_you_mean(name, NETS)} Others: torchvision:NAME, timm:NAME, or "
                "FILE.py:NAME or package.module:factory for your own"
            )
        net = build_net(name, channels=channels, classes=10, seed=0)
        return net, USUAL_SIZE if net.backbone.shrinks > 8 else OWN_SIZE
    if where == "torchvision":
        return _from_torchvision(what), USUAL_SIZE
    if where == "timm":
        return _from_timm(what)
    return _from_factory(where, what), USUAL_SIZE


def _from_torchvision(name: str) -> nn.Module:
    models = _module("torchvision.models")
    known = models.list_models(module=models)
    if name not in known:
        raise ConfigError(f"torchvision has no classifier {name!r}. {did_you_mean(name, known)}")
    # These two warn unless they are told whether to draw initial weights of their own kind, which is slow.
    settings = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model: nn.Module = models.get_model(name, weights=None, **settings)
    return model


def _from_timm(name: str) -> tuple[nn.Module, int]:
    timm = _module("timm")
    if not timm.is_model(name):
        raise ConfigError(f"timm has no model {name!r}. {did_you_mean(name, timm.list_models())}")
    model: nn.Module = timm.create_model(name, pretrained=False)
    cfg: Any = getattr(model, "pretrained_cfg", {})
    return model, int(cfg.get("input_size", (3, USUAL_SIZE, USUAL_SIZE))[-1])


def _from_factory(module: str, factory: str) -> nn.Module:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # `python -m` does so too; an installed command does not
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"there is no module {module!r}; write package.module:factory, as you would import it from this folder, or "
            "FILE.py:NAME"
        ) from None
    return _made(found, module, factory)


def _from_file(own: FileMethod) -> nn.Module:
    if not own.function:
        raise ConfigError(
            f"model {own.path!r} received, which is a file without the name of a function or class in it; write "
            f"{own.path}:NAME"
        )
    return _made(imported(read_code(own.path, what="model"), own.path), own.path, own.function)


def _made(found: Any, module: str, factory: str) -> nn.Module:
    """What a function or class of a module makes, if it is a model.

    Args:
        found: the module.
        module: what the user calls it, for messages.
        factory: the name in it.
    """
    if not hasattr(found, factory):
        public = [name for name in vars(found) if not name.startswith("_")]
        raise ConfigError(f"{module} has no {factory!r}. {did_you_mean(factory, public)}")
    made = getattr(found, factory)
    if not isinstance(made, nn.Module):
        try:
            made = made()
        except TypeError as error:
            raise ConfigError(
                f"{module}:{factory} cannot be called without arguments ({error}); name a function that can, "
                "for example one that calls it with yours"
            ) from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"{module}:{factory} made a {type(made).__name__}, not a torch.nn.Module")
    return made


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise ConfigError(f"{name} is not installed; install it {installing('nets')}") from None
    except (ImportError, RuntimeError) as error:
        raise ConfigError(why_not_imported(name, "nets", error)) from error
