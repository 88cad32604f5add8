"""Whether MFW can be attached to a layer of a model, before it is."""

from __future__ import annotations

from torch import nn

from procrustean.balance.layers import find_layer
from procrustean.balance.mfw_attach import LabelsOfCall, attachments
from procrustean.base.errors import LayerError


def attachable(model: nn.Module, layer: str, labels: str | None = None) -> nn.Module:
    """The layer of that name, or a LayerError that says why MFW cannot be attached to it."""
    if not isinstance(model, nn.Module):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"a model of type {type(model).__name__}"
        raise LayerError(f"{kind} received; give the model itself, a torch.nn.Module that has been built")
    if not isinstance(layer, str):
        raise LayerError(f"a layer of type {type(layer).__name__} received; give its name, as named_modules() lists")
    if labels is not None:
        LabelsOfCall.parameters(model, labels)
    module = find_layer(model, layer)
    if any(attached.module is module for attached in attachments(model).values()):
        raise LayerError(
            f"layer {layer!r} has MFW attached already; call remove() on that handle first. The handles of a model, "
            "also of a copied one: procrustean.balance.attachments(model)"
        )
    return module


def gives_scores(model: nn.Module, module: nn.Module, classes: int) -> bool:
    """Whether a part of a model ends in its last layer with weights, and that has one output per class."""
    with_weights = [part for part in model.modules() if next(part.parameters(recurse=False), None) is not None]
    last = with_weights[-1] if with_weights else None
    if not isinstance(last, nn.Linear) or last.out_features != classes:
        return False
    return any(part is last for part in module.modules())
