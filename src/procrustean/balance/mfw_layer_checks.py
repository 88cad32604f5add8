"""Whether MFW can be attached to a layer of a model, before it is."""

from __future__ import annotations

import gc

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from procrustean.balance.batch_statistics import batch_norms
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
    if has_earlier_average(model, module):
        raise LayerError(
            "an AveragedModel with the weights of this model was made before MFW is attached, so update_bn and "
            "recalibrate would give it statistics of unmixed batches, which undo what MFW trains; attach first, then "
            "average: handle = mfw.attach(model, layer); averaged = AveragedModel(model)"
        )
    return module


def gives_scores(model: nn.Module, module: nn.Module, classes: int) -> bool:
    """Whether a part of a model ends in its last layer with weights, and that has one output per class."""
    with_weights = [part for part in model.modules() if next(part.parameters(recurse=False), None) is not None]
    last = with_weights[-1] if with_weights else None
    if not isinstance(last, nn.Linear) or last.out_features != classes:
        return False
    return any(part is last for part in module.modules())


def has_earlier_average(model: nn.Module, layer: nn.Module) -> bool:
    """Whether an AveragedModel without MFW is a copy of the model, or of a part of it that holds the layer.

    update_bn would give it statistics of unmixed batches. An average keeps no tie to its model; all that can be known
    is that it has the same weights, so averages are looked for among all objects.
    """
    if not batch_norms(model):
        return False
    averages = [each.module for each in gc.get_objects() if issubclass(type(each), AveragedModel)]
    unaware = [average for average in averages if not attachments(average)]
    around = [part for part in model.modules() if any(inside is layer for inside in part.modules())]
    return any(_same_weights(average, part) for average in unaware for part in around)


def _same_weights(first: nn.Module, second: nn.Module) -> bool:
    ours, theirs = dict(first.named_parameters()), dict(second.named_parameters())
    return ours.keys() == theirs.keys() and all(
        ours[name].shape == theirs[name].shape and torch.equal(ours[name].cpu(), theirs[name].cpu()) for name in ours
    )
