"""Averages of a model that were made before MFW was attached to it, and know nothing of MFW."""

from __future__ import annotations

import gc

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from procrustean.balance.batch_statistics import batch_norms
from procrustean.balance.mfw_attach import attachments


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
