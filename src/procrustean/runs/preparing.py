"""From settings to a run that can start: data loaded, method built, every number resolved, everything checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.types import Problem
from procrustean.base.code_files import plain_name
from procrustean.base.errors import ConfigError, ImagesChanged, RunError
from procrustean.base.json_files import to_plain
from procrustean.data.imageset import Splits
from procrustean.data.imbalance import Imbalanced, build
from procrustean.data.recipes import FINE_TUNING, OWN_IMAGES, RECIPES, Recipe, chosen_recipe, data_set
from procrustean.data.sources import load_source
from procrustean.engine.device import place
from procrustean.engine.engines import choose_engine
from procrustean.engine.image_stores import free_bytes
from procrustean.engine.images import channel_statistics
from procrustean.engine.prepared import Prepared, known_source
from procrustean.engine.run_record import identity_of
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods.base import Method
from procrustean.methods.make import checked_options, make_method, option_defaults
from procrustean.nets.build import check_net, layers_of
from procrustean.nets.pretrained import read_pretrained
from procrustean.records.differences import difference, image_counts_difference
from procrustean.records.identity import Identity
from procrustean.records.run_spec import CHANGES_OF_RECIPE, RunSpec
from procrustean.runs.image_loading import source_settings
from procrustean.runs.method_fits import check_fit

#: Networks so small that float32 is faster than bf16 on a CPU.
_SMALL_NETS = ("small", "small-2d")


def prepare(
    config: RunSpec,
    *,
    splits: Splits | None = None,
    say: Callable[[str], None] = lambda text: None,
    to_train: bool = True,
    began: Recipe | None = None,
) -> Prepared:
    """Load the data and resolve every setting; all that can be wrong with them is said here, before training.

    Args:
        config: the settings.
        splits: the images, where the user has handed them over.
        say: called with one line of progress at a time.
        to_train: whether the network will need the weights it starts from.
        began: the recipe a run began with, if it exists already: defaults that have changed since do not touch it.
    """
    recipe_of(config)  # what is wrong with the settings is said before images are loaded
    options = effective_options(config)
    if splits is None:
        splits = load_source(**source_settings(config), say=say)
    if splits.note:
        say(splits.note)
    splits, data = imbalanced(config, splits)
    known = known_source(splits.name, config)
    recipe = chosen_recipe(config.recipe, known, pretrained=config.pretrained is not None)
    height, width, channels = data.train.images.shape[1:]
    classes = len(data.train.classes)
    layers = layers_of(config.net or recipe.net, channels=channels, classes=classes, size=(height, width))
    counts = tuple(int(n) for n in data.counts)
    problem = Problem.on(layers, counts, kind_for_methods(data.kind, counts), data_set(known))
    method = make_method(config.method, problem, options)
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
    placement = place(config.device, config.precision, small=recipe.net in _SMALL_NETS)
    engine = choose_engine(config.engine, config.kernels, placement, method, layers)
    prepared = Prepared(config, data, splits, method, options, recipe, placement, engine, weights)
    stage_epochs(method, recipe.epochs)  # refuses too few
    if config.features_at and max(config.features_at) > recipe.epochs:
        raise ConfigError(
            f"features_at = {list(config.features_at)} received, but the run has {recipe.epochs} epochs; "
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
    chosen = chosen_recipe(config.recipe, config.source, pretrained=config.pretrained is not None)
    return _resolved(chosen, config, method)


def effective_options(config: RunSpec) -> dict[str, Any]:
    """Every option of the method: as it was given, or its default."""
    given = checked_options(config.method, {**config.options, **({"drw": True} if config.drw else {})})
    return {**option_defaults(config.method), **given}


def _resolved(recipe: Recipe, config: RunSpec, method: Method, began: Recipe | None = None) -> Recipe:
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


#: Parts of a run's identity that are those of its images; and those that follow from them and tell nobody anything.
OF_THE_IMAGES = ("classes", "counts", "split_hash")
FROM_THE_IMAGES = ("split_hash", "recipe.mean", "recipe.std")
#: Parts that differ only where these do.
MORE_ABOUT_THE_IMAGES = ("source_hash", "images")


def check_identity(
    run: Path,
    identity: Identity,
    prepared: Prepared,
    purpose: str = "go on",
    besides: Collection[str] = (),
) -> None:
    """Refuse a run whose data, classes or defaults have changed since it began.

    Args:
        run: where it is.
        identity: what it began with.
        prepared: the run as it would be now.
        purpose: what it cannot do then, in words.
        besides: parts of the identity that make no difference to that.
    """
    current = identity_of(prepared)
    before, now = _flat(identity), _flat(current)
    both = [k for k in {**before, **now} if k.partition(".")[0] not in (*besides, *MORE_ABOUT_THE_IMAGES)]
    if prepared.pretrained is None and prepared.config.pretrained:
        both.remove("pretrained")  # a trained network no longer needs the weights it started from
    changed = [k for k in both if before.get(k) != now.get(k)]
    of_images = any(name in OF_THE_IMAGES for name in changed)
    told = [difference(k, before.get(k), now.get(k)) for k in changed if not (of_images and k in FROM_THE_IMAGES)]
    if of_images:
        recounted = image_counts_difference(identity.images, current.images)
        how = recounted or "; ".join(told) or "as many as before, but others"
        raise ImagesChanged(
            f"{run} cannot {purpose}: its images have changed ({how}). Put those back that it began with, or "
            "train on those that are there now in another folder"
        )
    if changed:
        raise RunError(
            f"{run} cannot {purpose}: its settings or the library's defaults have changed ({'; '.join(told)})"
        )


def _flat(identity: Identity) -> dict[str, Any]:
    """Nested settings under dotted names, so that a difference is told by the one that differs."""
    flat: dict[str, Any] = {}
    for key, value in to_plain(identity).items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": v for inner, v in value.items()}
        else:
            flat[key] = value
    return flat
