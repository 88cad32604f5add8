"""One form for settings that compute the same, so that tables share the runs they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from procrustean.balance.mfw import DEFAULT_BETA
from procrustean.base.errors import ConfigError
from procrustean.data.recipe import Recipe
from procrustean.data.sources import is_named
from procrustean.methods.make import checked_options, option_defaults
from procrustean.methods.mfw import SAME_RUN, furthest_apart, usual_value
from procrustean.nets.build import layers_of
from procrustean.records.identity import ON_THE_WAY
from procrustean.records.run_spec import CHANGES_OF_RECIPE, RunSpec
from procrustean.runs.preparing import effective_options, recipe_of
from procrustean.runs.training_sizes import training_counts

_DEFAULTS = {f.name: f.default for f in fields(RunSpec)}


def canonical(config: RunSpec) -> RunSpec:
    """The same run with everything left out that the defaults would choose anyway.

    >>> canonical(RunSpec("cifar10", "step", 100, method="mfw", options={"alpha": 5, "layer": "group2"})).options
    {}
    """
    config = _usual_recipe(config)
    settings = config.to_json()
    key = tuple((name, _hashable(settings[name])) for name in settings if name not in ("run_dir", "data_dir", "seed"))
    changes = _changes(key)
    return replace(config, **changes)


def unmeasured(config: RunSpec) -> RunSpec:
    """The same run without measurements on its way, which change none of its weights."""
    plain: dict[str, Any] = {name: _DEFAULTS[name] for name in ON_THE_WAY}
    return replace(config, **plain)


def _usual_recipe(config: RunSpec) -> RunSpec:
    """The recipe of the data set under the name of today; "paper" has always stood for it."""
    usual: Any = _DEFAULTS["recipe"]
    return replace(config, recipe=usual) if config.recipe == "paper" else config


@cache
def _changes(key: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    settings = {name: dict(value) if name == "options" else value for name, value in key}
    config = RunSpec.from_json(settings)
    unset: dict[str, Any] = dict.fromkeys(CHANGES_OF_RECIPE)
    plain = recipe_of(replace(config, **unset))
    changes: dict[str, Any] = {n: None for n in CHANGES_OF_RECIPE if getattr(config, n) == getattr(plain, n)}
    options = checked_options(config.method, config.options)
    drw = bool(options.pop("drw", False)) or config.drw
    defaults = option_defaults(config.method)
    options = {name: value for name, value in options.items() if value != defaults[name]}
    if config.method == "mfw":
        options = _mfw_options(config, options)
    if config.hold_out == 0:
        changes["hold_out_from"] = "training"
    return {**changes, "options": options, "drw": drw}


def _mfw_options(config: RunSpec, options: dict[str, Any]) -> dict[str, Any]:
    """Options of MFW without those whose default depends on the data, where they equal it."""
    net = config.net or recipe_of(config).net
    if options.get("layer") == _second_group(net):
        options = _without(options, "layer")
    if config.imbalance == "natural":
        return options
    kind = config.imbalance
    if options.get("alpha") == usual_value("alpha", config.source, kind):
        options = _without(options, "alpha")
    counts = training_counts(config)
    if counts is not None and ("std" in options or "beta" in options):
        own = options.get("std", "geometric"), options.get("beta", DEFAULT_BETA[kind])
        if furthest_apart(counts, own, ("geometric", DEFAULT_BETA[kind])) < SAME_RUN:
            return _without(options, "std", "beta")
    if options.get("beta") == DEFAULT_BETA[kind]:
        options = _without(options, "beta")
    return options


@cache
def _second_group(net: str) -> str:
    """The layer that MFW mixes at by default; the network is built for it, once for all runs of a table."""
    return layers_of(net).second_group


def _without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((name, _hashable(inner)) for name, inner in value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def trained_as_today(options: Mapping[str, Any], recipe: Recipe, config: RunSpec) -> bool:
    """Whether options and recipe of a run are those that its settings stand for today.

    With an older version it may have been trained with other defaults; it is then not the run it looks like.
    """
    config = _usual_recipe(config)
    try:
        usual = recipe_of(config)
        defaults = effective_options(config)
    except ConfigError:
        return False
    # What is measured on the images is not known without them; the border follows the size of the user's own ones.
    padding = usual.padding if is_named(config.source) else recipe.padding
    expected = replace(
        usual, name=recipe.name, mean=usual.mean or recipe.mean, std=usual.std or recipe.std, padding=padding
    )
    return recipe == expected and all(defaults.get(name) == value for name, value in options.items())
