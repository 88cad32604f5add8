"""One forward pass of a model, as its layers see it: who is called, in which order, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.mixing import feature_of
from procrustean.base.errors import DataError


class ForwardTrace:
    """What a forward pass does: the layers whose output can be mixed, in the order in which they end."""

    def __init__(self, model: nn.Module, example: Any) -> None:
        self.model = model
        self.modules = {path: module for path, module in model.named_modules() if path}
        args, kwargs, batch = _arguments(example)
        self.outputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.calls = dict.fromkeys(self.modules, 0)

        def note(path: str, output: Any) -> None:
            self.calls[path] += 1
            feature = feature_of(output)
            if feature is not None and feature.dim() > 1 and feature.shape[0] == batch:
                self.outputs[path] = (type(self.modules[path]).__name__, tuple(feature.shape))

        def hook(path: str) -> Any:
            return lambda module, inputs, output: note(path, output)

        hooks = [module.register_forward_hook(hook(path)) for path, module in self.modules.items()]
        try:
            with evaluation_mode(model), torch.no_grad():
                model(*args, **kwargs)
        finally:
            for registration in hooks:
                registration.remove()
        # Flat outputs are those of the head, unless the whole network is one of vectors.
        maps = {path: found for path, found in self.outputs.items() if len(found[1]) > 2}
        self.outputs = {path: found for path, found in (maps or self.outputs).items() if self.calls[path] == 1}
        self._weighted = [
            path
            for path, module in self.modules.items()
            if any(p.dim() > 1 for p in module.parameters(recurse=False))
            # Some layers compute with the weights of the layers inside them without calling those.
            and any(self.calls[parent] for parent in (*_parents(path), path))
        ]

    def children(self, path: str) -> list[str]:
        """Layers right below one, in the order of the forward pass; lists of layers, which are never called, opened."""
        depth = path.count(".") + 1 if path else 0
        below = [
            name for name in self.modules if name.count(".") == depth and name.startswith(f"{path}." if path else "")
        ]
        found = []
        for name in below:
            if not self.calls[name] and isinstance(self.modules[name], nn.ModuleList | nn.ModuleDict):
                found += self.children(name)
            elif self.inside(name):
                found.append(name)
        order = list(self.outputs)
        return sorted(found, key=lambda name: order.index(self.inside(name)[-1]))

    def inside(self, path: str) -> list[str]:
        """Mixable layers that are this one or belong to it."""
        return [name for name in self.outputs if name == path or name.startswith(path + ".")]

    def unmixable_around(self, path: str) -> str | None:
        """The block that a layer belongs to, if that block is called but its output cannot be mixed."""
        bodies = [p for p in _parents(path) if self.calls[p] and self.weighted(p) < 0.8 * self.weighted("")]
        return next((p for p in bodies if p not in self.outputs), None)

    def weighted(self, path: str) -> int:
        """Layers with a weight matrix or kernel in a part of the model that is in use; all of them for ""."""
        return sum(name == path or name.startswith(f"{path}." if path else "") for name in self._weighted)

    def is_block(self, path: str) -> bool:
        """A unit with an inner structure, such as a residual block or a stage of them; not a plain row of layers."""
        module, shape = self.modules[path], self.outputs[path][1]
        plain = isinstance(module, nn.Sequential) and not any(list(child.children()) for child in module)
        first = any(word in path.rpartition(".")[2].lower() for word in ("stem", "embed"))
        return self.weighted(path) > 1 and not plain and not first and (len(shape) < 3 or math.prod(shape[2:]) > 1)

    def unit(self, path: str) -> str:
        """The repeated unit that a layer is or belongs to, or the layer itself."""
        return next((name for name in (path, *reversed(_parents(path))) if self.is_repeated(name)), path)

    def is_repeated(self, path: str) -> bool:
        """Whether a part stands in a list or row with others of its class; layers of PyTorch itself are no units."""
        kind, container = type(self.modules[path]), self.model.get_submodule(path.rpartition(".")[0])
        listed = isinstance(container, nn.ModuleList | nn.ModuleDict | nn.Sequential)
        own = not kind.__module__.startswith("torch.")
        return listed and own and sum(type(other) is kind for other in container.children()) > 1


def _parents(path: str) -> list[str]:
    """Paths of the modules that a module belongs to, the outermost first."""
    return [path[:position] for position, letter in enumerate(path) if letter == "."]


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any], int]:
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, Mapping):
        kwargs = dict(example)
    else:
        args = tuple(example) if isinstance(example, tuple | list) else (example,)
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.dim()]
    if not tensors:
        raise DataError(
            f"an example of type {type(example).__name__} received; give what the model is called with: a tensor, a "
            "tuple of arguments or a mapping of keyword arguments"
        )
    return args, kwargs, tensors[0].shape[0]


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Whatever happens to the modes inside, each part has its own again outside: a frozen part stays in evaluation."""
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, the modes of before outside."""
    with kept_modes(model):
        model.eval()
        yield
