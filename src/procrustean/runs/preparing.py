"""From settings to a run that can start: data loaded, method built, every number resolved, everything checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.types import Problem
from procrustean.balance.weights import DeferredWeights, FixedWeights
from procrustean.base.console import number_of
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import file_code, plain_name
from procrustean.data.imageset import Splits
from procrustean.data.imbalance import Imbalanced, build
from procrustean.data.recipes import FINE_TUNING, OWN_IMAGES, RECIPES, Recipe, chosen_recipe, data_set
from procrustean.data.sources import load_source
from procrustean.engine.device import place
from procrustean.engine.engines import choose_engine
from procrustean.engine.image_stores import free_bytes
from procrustean.engine.images import channel_statistics
from procrustean.engine.prepared_run import Prepared, known_source
from procrustean.engine.stage_order import reshape_for, stage_epochs
from procrustean.engine.stage_training import is_within, learning_names
from procrustean.methods.make import checked_options, make_method, of_the_head, option_defaults, with_adapter
from procrustean.methods.method import Method, Stage
from procrustean.methods.own_method import check_scale
from procrustean.nets.adapters import adapter_of
from procrustean.nets.build import check_net, layers_of
from procrustean.nets.classifier import FeatureLayers, check_scores, check_size
from procrustean.nets.pretrained import read_pretrained
from procrustean.records.run_spec import CHANGES_OF_RECIPE, RunSpec
from procrustean.runs.image_loading import source_settings

#: Networks so small that float32 is faster than bf16 on a CPU.
_SMALL_NETS = ("small", "small-2d")


def prepare(
    config: RunSpec,
    *,
    splits: Splits | None = None,
    made: tuple[Splits, Imbalanced] | None = None,
    say: Callable[[str], None] = lambda text: None,
    to_train: bool = True,
    began: Recipe | None = None,
) -> Prepared:
    """Load the data and resolve every setting; all that can be wrong with them is said here, before training.

    Args:
        config: the settings.
        splits: the images, where the user has handed them over.
        made: what `imbalanced` has made of them, where that is done.
        say: called with one line of progress at a time.
        to_train: whether the network will need the weights it starts from.
        began: the recipe a run began with, if it exists already: defaults that have changed since do not touch it.
    """
    options = effective_options(config)
    if splits is None:
        recipe_of(config)  # what is wrong with the settings is said before images are loaded
        splits = load_source(**source_settings(config), say=say)
    if splits.note:
        say(splits.note)
    splits, data = made or imbalanced(config, splits)
    known = known_source(splits.name, config)
    recipe = chosen_recipe(config.recipe, known, pretrained=config.pretrained is not None, tune=config.tune)
    height, width, channels = data.train.images.shape[1:]
    classes = len(data.train.classes)
    layers = layers_of(config.net or recipe.net, channels=channels, classes=classes, size=(height, width))
    counts = tuple(int(n) for n in data.counts)
    kind = kind_for_methods(data.kind, counts)
    problem = Problem.on(FeatureLayers() if config.tune == "head" else layers, counts, kind, data_set(known))
    method = make_method(config.method, problem, options)
    if file_code(config.method) is not None and began is None:
        check_scale(method, classes, plain_name(config.method))
    if config.tune == "head":
        method = of_the_head(method, config.method)
    elif config.tune != "all":
        method = with_adapter(method, adapter_of(layers, config.tune, config.net or recipe.net, say))
    if config.average != "none" and (len(method.stages) > 1 or method.finish is not None):
        raise ConfigError(
            f"average {config.average!r} received, but {method.label} trains in stages or changes the trained network, "
            "so that an average along the way is none of what it makes; leave --average out"
        )
    recipe = _resolved(recipe, config, method, began)
    if recipe.name in (OWN_IMAGES, FINE_TUNING) and recipe.padding and began is None:
        # Four pixels are an eighth of the 32 that the recipe was made for; of 8 pixels they would leave half an image.
        recipe = recipe.changed({"padding": max(1, round(max(data.train.images.shape[1:3]) / 8))})
    weights = read_pretrained(config.pretrained, recipe.net, say) if config.pretrained and to_train else None
    if weights is not None and weights.normalisation is not None:
        pixels = weights.normalisation.grey() if channels == 1 else weights.normalisation
        recipe = recipe.changed({"mean": pixels.mean, "std": pixels.std})
    elif config.pretrained and began is not None and not to_train:
        recipe = recipe.changed({"mean": began.mean, "std": began.std})  # the weights may have told them
    elif recipe.mean is None or recipe.std is None:
        mean, std = channel_statistics(data.train)
        recipe = recipe.changed({"mean": mean, "std": std})
    small = recipe.net in _SMALL_NETS or config.tune == "head"
    placement = place(config.device, config.precision, small=small)
    engine = choose_engine(config.engine, config.kernels, placement, method, layers)
    prepared = Prepared(config, data, splits, method, options, recipe, placement, engine, weights)
    stage_epochs(method, recipe.epochs)  # refuses too few
    if config.features_at and max(config.features_at) > recipe.epochs:
        raise ConfigError(
            f"features_at = {list(config.features_at)} received, but the run has {number_of(recipe.epochs, 'epoch')}; "
            "name epochs from 1 to that"
        )
    _check_batches(recipe, (len(data.train), *prepared.image_size), layers.shrinks)
    check_fit(prepared)
    _check_draws(method, len(data.train))
    return prepared


def imbalanced(config: RunSpec, splits: Splits) -> tuple[Splits, Imbalanced]:
    """The images of the classes that settings name, as they are and as a run of these settings takes them."""
    if config.classes:
        splits = splits.only(config.classes)
    data = build(
        splits,
        imbalance=config.imbalance,
        rho=config.rho,
        data_seed=config.data_seed,
        hold_out=config.hold_out or 0,
        hold_out_from=config.hold_out_from,
    )
    return splits, data


def _check_batches(recipe: Recipe, shape: tuple[int, ...], shrinks: int) -> None:
    images, height, width = shape[:3]
    batch = min(recipe.batch_size, images)
    alone = batch == 1 or images % batch == 1
    if alone and max(height, width) <= shrinks:
        raise ConfigError(
            f"{images} training images in batches of {recipe.batch_size} leave one image of {width} x {height} pixels "
            "alone in a batch, and batch normalisation cannot normalise a single value; choose another --batch-size"
        )


def _check_draws(method: Method, images: int) -> None:
    """Refuse a method whose random numbers of an epoch, all drawn ahead, do not fit the memory."""
    for stage in method.stages:
        per_image = sum(math.prod(shape) for shape in stage.objective.draws.values())
        needed, free = 12 * per_image * images, free_bytes(torch.device("cpu"))  # 4 bytes each, 8 while they are drawn
        if needed > free:
            raise ConfigError(
                f"{method.label} draws {per_image:,} random numbers for each of {images:,} images, {needed / 1e9:.3g} "
                f"GB an epoch, and {free / 1e9:.3g} GB of memory are free; choose another method for so many classes"
            )


def recipe_of(config: RunSpec) -> Recipe:
    """The recipe a run will have, as far as it is known without its data; checks method, options and network."""
    # A recipe depends on the data set and the method, not on the counts: any will do.
    problem = Problem(counts=(2, 1), kind="step", source=data_set(config.source))
    method = make_method(config.method, problem, effective_options(config))
    if config.net is not None:
        check_net(config.net)
    chosen = chosen_recipe(config.recipe, config.source, pretrained=config.pretrained is not None, tune=config.tune)
    return _resolved(chosen, config, method)


def effective_options(config: RunSpec) -> dict[str, Any]:
    """Every option of the method: as it was given, or its default."""
    given = checked_options(config.method, {**config.options, **({"drw": True} if config.drw else {})})
    return {**option_defaults(config.method), **given}


def _resolved(recipe: Recipe, config: RunSpec, method: Method, began: Recipe | None = None) -> Recipe:
    if config.tune == "head" and config.pretrained is None:
        raise ConfigError("tune 'head' received without weights to make features with; give --pretrained")
    longer = {"epochs": round(recipe.epochs * method.longer)} if method.longer != 1 else {}
    changes = method.own if config.recipe == "own" else {**longer, **method.paper}
    if changes is None:
        raise ConfigError(
            f"recipe 'own' received, but {plain_name(config.method)} was not published on {config.source} with a "
            f"recipe known here; leave --recipe out to train by {recipe.name!r}, {RECIPES[recipe.name][1]}"
        )
    chosen = {name: getattr(config, name) for name in CHANGES_OF_RECIPE}
    flags = {name: value for name, value in chosen.items() if value is not None}
    if began is not None:
        # Mean and spread are the data's: measured again, they show whether the images are still the same.
        return replace(began, mean=recipe.mean, std=recipe.std).changed(flags)
    return recipe.changed(changes).changed(flags)


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
    if not any(stage.reshape for stage in prepared.method.stages):
        prepared.built.append(net)


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
