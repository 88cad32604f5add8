"""Which runs are the same: one form for settings that compute the same, repeats of a run, and which of two counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from procrustean.balance.mfw_module import DEFAULT_BETA
from procrustean.base.errors import ConfigError
from procrustean.base.own_code import edited_file, file_code, is_usable
from procrustean.data.recipe import Recipe
from procrustean.data.sources import is_named
from procrustean.methods.make import checked_options, option_defaults
from procrustean.methods.mfw import SAME_RUN, furthest_apart, usual_value
from procrustean.nets.build import layers_of
from procrustean.records.identity import ON_THE_WAY
from procrustean.records.run_record import Result
from procrustean.records.run_spec import CHANGES_OF_RECIPE, RunSpec
from procrustean.runs.image_loading import source_settings
from procrustean.runs.preparing import effective_options, recipe_of
from procrustean.runs.training_sizes import training_counts

OTHER_IMAGES = "was trained on other images than"
_DEFAULTS = {f.name: f.default for f in fields(RunSpec)}


def canonical(config: RunSpec) -> RunSpec:
    """The same run with everything left out that the defaults would choose anyway.

    >>> canonical(RunSpec("cifar10", "step", 100, method="mfw", options={"alpha": 5, "layer": "group2"})).options
    {}
    """
    settings = {**config.to_json(), "run_dir": None, "data_dir": None, "seed": 0}
    return replace(config, **_changes(json.dumps(settings)))


def unmeasured(config: RunSpec) -> RunSpec:
    """The same run without measurements on its way, which change none of its weights."""
    plain: dict[str, Any] = {name: _DEFAULTS[name] for name in ON_THE_WAY}
    return replace(config, **plain)


@cache
def _changes(settings: str) -> dict[str, Any]:
    config = RunSpec.from_json(json.loads(settings))
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
    usual: dict[str, Any] = {"layer": _second_group(config.net or recipe_of(config).net)}
    if (kind := config.imbalance) != "natural":
        usual |= {"alpha": usual_value("alpha", config.source, kind), "beta": DEFAULT_BETA[kind]}
        counts = training_counts(config) if {"std", "beta"} & set(options) else None
        own = options.get("std", "geometric"), options.get("beta", DEFAULT_BETA[kind])
        if counts is not None and furthest_apart(counts, own, ("geometric", DEFAULT_BETA[kind])) < SAME_RUN:
            usual |= {"std": own[0], "beta": own[1]}
    return {name: value for name, value in options.items() if value != usual.get(name, ...)}


@cache
def _second_group(net: str) -> str:
    """The layer that MFW mixes at by default; the network is built for it, once for all runs of a table."""
    return layers_of(net).second_group


def trained_as_today(options: Mapping[str, Any], recipe: Recipe, config: RunSpec) -> bool:
    """Whether options and recipe of a run are those that its settings stand for today.

    With an older version it may have been trained with other defaults; it is then not the run it looks like.
    """
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


@dataclass(frozen=True)
class Stored:
    """A finished run and its settings in the form by which runs are told apart."""

    config: RunSpec
    result: Result

    @property
    def path(self) -> Path:
        """The file of the result."""
        assert self.result.path is not None
        return self.result.path

    @property
    def images(self) -> str:
        """The hash of the images that the source held."""
        return self.result.data.source_hash

    @cached_property
    def written(self) -> float:
        """When the run was finished, in seconds; where the record does not say it, when the file was written."""
        told = self.result.record.finished_at
        return self.path.stat().st_mtime if told is None else told.timestamp()

    def counts_before(self, other: Stored) -> bool:
        """Of two results of the same run: on different images the newer counts, else the one named after the run."""
        if self.images != other.images:
            return self.written > other.written
        return self._is_named_after_the_run > other._is_named_after_the_run

    @property
    def _is_named_after_the_run(self) -> bool:
        return self.path.stem.startswith(self.config.slug)

    def on_newest_images(self, among: Iterable[Stored]) -> Stored:
        """The newest of the runs whose images were loaded as those of this one, which is one of them.

        Images of the user's own may be changed between two runs. Those of known data sets are what they are, and which
        of their classes are taken is a matter of the settings.
        """
        if is_named(self.config.source):
            return self
        return max((other for other in among if other._loaded == self._loaded), key=lambda other: other.written)

    @property
    def _loaded(self) -> dict[str, object]:
        return {**source_settings(self.config), "data_dir": None, "classes": self.config.classes}

    def older_text(self, newest: Stored) -> str:
        """Why it is left out."""
        return f"left out: {self.path} {OTHER_IMAGES} {newest.path}, which is newer"


def whatever_the_seed(config: RunSpec) -> str:
    """What the runs of one setting have in common, of settings in the form by which runs are told apart."""
    return replace(config, seed=0).hash


def why_not_usable(config: RunSpec) -> str | None:
    """Why the runs of a method's file are left out; None for all other methods."""
    own = file_code(config.method)
    if own is None or is_usable(config.method):
        return None
    place = edited_file(own)
    if place is None:
        return f"runs of {own.plain}, whose code is not imported unless --allow-code {own.path} names it"
    return f"runs of {own.plain}, but {place} has been edited since: put back the text that it had to see them"
