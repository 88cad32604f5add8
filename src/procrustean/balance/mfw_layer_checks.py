"""Whether MFW can be attached to a layer of a model, before it is."""

from __future__ import annotations

from torch import nn

from procrustean.balance.layers import find_layer
from procrustean.balance.mfw_attach import DATA_PARALLEL, LabelsOfCall, attachments
from procrustean.base.errors import LayerError

COMPILED = "_orig_mod"  # how torch.compile keeps the model it has wrapped


def attachable(model: nn.Module, layer: str, labels: str | None = None) -> nn.Module:
    """The layer of that name, or a LayerError that says why MFW cannot be attached to it."""
    if not isinstance(model, nn.Module):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"a model of type {type(model).__name__}"
        raise LayerError(f"{kind} received; give the model itself, a torch.nn.Module that has been built")
    if not isinstance(layer, str):
        raise LayerError(f"a layer of type {type(layer).__name__} received; give its name, as named_modules() lists")
    for around in model.modules():
        if isinstance(around, nn.DataParallel):
            raise LayerError(DATA_PARALLEL)
    paths = {path for path, _ in model.named_modules()}
    # Asked for by the name that it had before, of which the compiled model knows nothing any more.
    if COMPILED in model._modules or layer in {_name_before(path) for path in paths} - paths:
        raise _compiled_before(layer)
    if labels is not None:
        LabelsOfCall.parameters(model, labels)
    module = find_layer(model, layer)
    compiled = [inside for around in model.modules() if (inside := around._modules.get(COMPILED)) is not None]
    if any(part is module for inside in compiled for part in inside.modules()):
        raise _compiled_before(layer)
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


def _name_before(path: str) -> str:
    """The path of a layer before parts of its model were compiled."""
    return ".".join(part for part in path.split(".") if part != COMPILED)


def _compiled_before(layer: str) -> LayerError:
    return LayerError(
        f"layer {layer!r} belongs to a compiled model, which may not notice a hook any more; attach first, then "
        "compile: handle = mfw.attach(model, layer); model = torch.compile(model)"
    )
