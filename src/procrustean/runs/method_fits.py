"""Whether a method fits the network and the classes that it is to train; asked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from procrustean.balance.weights import DeferredWeights, FixedWeights
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.engine.stage_order import reshape_for
from procrustean.engine.stage_training import is_within, learning_names
from procrustean.methods.base import Stage
from procrustean.nets.classifier import check_scores, check_size

if TYPE_CHECKING:
    from procrustean.engine.prepared import (
        Prepared,
    )


def check_fit(prepared: Prepared) -> None:
    """Refuse images that the network cannot take, and layers, parts, scores or weights that it does not have."""
    net, classes = prepared.build_net(), len(prepared.data.train.classes)
    check_size(net, prepared.data.train.images.shape[3], prepared.image_size, prepared.recipe.net)
    for number, stage in enumerate(prepared.method.stages):
        reshape_for(net, prepared.method, number, prepared.config.seed)
        stage.objective.bind(net)
        stage.objective.unbind()
        check_scores(net, classes)
        check_named_parts(stage, net)
        check_class_weights(stage.objective, classes)


def check_named_parts(stage: Stage, net: nn.Module) -> None:
    """ConfigError for a part of the network that a stage names and that does not learn in it, or is not there."""
    learning = learning_names(net, stage.trainable)
    for slot in ("rates", "no_decay"):
        for part in getattr(stage, slot):
            if not any(is_within(name, part) for name in learning):
                raise ConfigError(
                    f"{slot} = {getattr(stage, slot)!r} received by the stage {stage.name!r}, but nothing in {part!r} "
                    f"learns there. {did_you_mean(part, _parts_with(learning))}"
                )


def _parts_with(names: list[str]) -> list[str]:
    """Parameters and all that they are part of."""
    parts = (name.split(".")[:depth] for name in names for depth in range(1, name.count(".") + 2))
    return list(dict.fromkeys(".".join(part) for part in parts))


def check_class_weights(objective: nn.Module, classes: int) -> None:
    """ConfigError for class weights that are not one number of 0 or more for each class."""
    for part in objective.modules():
        if not isinstance(part, FixedWeights | DeferredWeights):
            continue
        if part.weights.shape != (classes,):
            raise ConfigError(
                f"class weights of shape {tuple(part.weights.shape)} received for {classes} classes; give "
                f"{type(part).__name__} one number for each class"
            )
        if not (torch.isfinite(part.weights).all() and (part.weights >= 0).all() and part.weights.any()):
            shown = ", ".join(f"{weight:g}" for weight in part.weights[:8].tolist()) + ", ..." * (classes > 8)
            raise ConfigError(
                f"class weights {shown} received; give {type(part).__name__} finite numbers of 0 or more, not all of "
                "them 0"
            )
