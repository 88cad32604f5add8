"""Find a layer by name, or explain which names there are."""

from __future__ import annotations

from torch import nn

from .errors import LayerError, did_you_mean


def published_layers(model: nn.Module) -> dict[str, str]:
    """Short names a network publishes for its mixable layers ("group2") and the modules they stand for."""
    return dict(getattr(model, "mixable", {}))


def layer_names(model: nn.Module) -> list[str]:
    """Every name `find_layer` accepts: the published short names first, then all module paths."""
    return [*published_layers(model), *(name for name, _ in model.named_modules() if name)]


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """The module called `name`: a published short name or a dotted module path.

    >>> find_layer(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "1")
    ReLU()
    """
    path = published_layers(model).get(name, name)
    modules: dict[str, nn.Module] = dict(model.named_modules())
    if not path or path not in modules:
        names = layer_names(model)
        shown = did_you_mean(name, names) if len(names) > 12 else "Its layers: " + ", ".join(names) + "."
        raise LayerError(
            f"{type(model).__name__} has no layer {name!r}. {shown} "
            "List all with: [name for name, _ in model.named_modules()]"
        )
    return modules[path]
