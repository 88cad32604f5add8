"""What --dry-run prints: all settings as YAML, and the recipe and method they resolve to as comments."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace

from procrustean.balance.count_facts import imbalance_kind
from procrustean.balance.types import Problem
from procrustean.balance.weights import DeferredWeights, first_deferred
from procrustean.base.files import expanded
from procrustean.base.own_code import plain_name
from procrustean.cli.config_file import config_as_yaml
from procrustean.data.recipe import Recipe
from procrustean.data.recipes import RECIPES, data_set
from procrustean.data.sources import is_named
from procrustean.engine.stage_order import stage_epochs, stages_text
from procrustean.methods.make import make_method
from procrustean.methods.method import Method
from procrustean.nets.build import layers_of
from procrustean.nets.classifier import Backbone
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.advice import planned, trained_on
from procrustean.runs.image_loading import Sources
from procrustean.runs.preparing import effective_options, recipe_of
from procrustean.runs.training_sizes import training_counts
from procrustean.runs.ways import Way, agenda, open_ways


def settings_text(config: RunSpec, tuned: Collection[str] = (), minutes: float | None = None) -> str:
    """All settings, filled in for images that are there, and the method and recipe they resolve to.

    Of settings with the user's own code they are all: a dry run imports none, and nothing else would tell the rest.
    """
    if config.code:
        files = " and ".join(map(plain_name, config.code.values()))
        return config_as_yaml(config) + f"# {files}: a dry run imports no code of yours, so no recipe can be shown\n"

    def named(settings: RunSpec) -> RunSpec:
        return replace(settings, method="mfw") if settings.method in (ADVISED, AUTO) else settings

    recipe_of(named(config))  # what is wrong with the settings is said before images are loaded
    images = None
    if is_named(config.source) or expanded(config.source).exists():
        sources = Sources()
        ways = open_ways(config, sources)
        if len(ways) > 1:
            return config_as_yaml(config) + ways_comments(config, ways, sources, minutes)
        plan = planned(agenda(config, ways, sources, minutes).ways[0].config if ways else config, load=sources)
        config, images = plan.config, plan.splits
    elif config.method == ADVISED:
        config = named(config)
    recipe = recipe_of(named(config))
    comments = "".join(f"# {name}: {value}\n" for name, value in asdict(recipe).items() if name != "name")
    own = f", as {plain_name(config.method)} was published" * (config.recipe == "own")
    title = f"# The recipe these settings resolve to: {recipe.name}, {RECIPES[recipe.name][1]}{own}\n"
    # Which methods are compared, --method auto decides when it runs.
    if config.method == AUTO:
        return config_as_yaml(config) + title + comments
    # The largest class first, as methods see them.
    counts = training_counts(config) if images is None else sorted(trained_on(config, images), reverse=True)
    return config_as_yaml(config) + method_comments(config, recipe, tuned, counts) + title + comments


def ways_comments(config: RunSpec, ways: tuple[Way, ...], sources: Sources, minutes: float | None) -> str:
    """What is tried where the settings leave the way to train open, how long that takes, and the recipes."""
    on = agenda(config, ways, sources, minutes)
    recipes = [(way, recipe_of(way.config)) for way in on.ways]
    told = "".join(f"# {way.name}: recipe {recipe.name}, {recipe.text()}\n" for way, recipe in recipes)
    return f"# {on.text()}\n{told}"


def method_comments(
    config: RunSpec, recipe: Recipe, tuned: Collection[str] = (), counts: Sequence[int] | None = None
) -> str:
    """Every option of the method with its value, and the kind of imbalance and the epochs that follow from others."""
    backbone, name = layers_of(recipe.net), plain_name(config.method)
    label, before, after = name, dict[str, str](), dict[str, str]()
    resolved: Mapping[str, object] | None = None
    if counts is not None:
        kind = imbalance_kind(counts) if config.imbalance == "natural" else config.imbalance
        problem = Problem.on(backbone, tuple(counts), kind, data_set(config.source))
        with warnings.catch_warnings():  # what there is to warn about, training says
            warnings.simplefilter("ignore")
            method = make_method(config.method, problem, effective_options(config))
        label, resolved, before = method.label, method.resolved, {"kind": kind}
        if stages := stages_text(method, recipe.epochs):
            after["stages"] = stages
        after |= _deferred(method, recipe.epochs)
    options = {}
    for option, value in effective_options(config).items():
        if value is None:
            value = "depends on the counts" if resolved is None else resolved.get(option, "left to the method")
        options[option] = "to be chosen" if option in tuned else _with_layers(option, str(value), backbone)
    lines = "".join(f"# {fact}: {text}\n" for fact, text in (before | options | after).items())
    return f"# The method these settings resolve to: {label} (procrustean list methods {name} explains it)\n{lines}"


def _with_layers(option: str, text: str, backbone: Backbone) -> str:
    """The value of an option; of one that names groups of layers, with the layers that these are."""
    if option not in ("layer", "layers"):
        return text
    at = [one.strip() for one in text.split(",")]
    return ", ".join(f"{one} (backbone.{backbone.groups[one]})" if one in backbone.groups else one for one in at)


def _deferred(method: Method, epochs: int) -> dict[str, str]:
    for stage, length in zip(method.stages, stage_epochs(method, epochs), strict=True):
        for part in stage.objective.modules():
            if isinstance(part, DeferredWeights):
                first = first_deferred(part.start, length) + 1
                return {"drw sets in": f"in epoch {first} of {length}, after {100 * part.start:g} %"}
    return {}
