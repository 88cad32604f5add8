"""procrustean list: methods, nets, layers, recipes and sources"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, get_args

import tyro

from procrustean.base.console import write_result
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import file_code, pinned_name, plain_name, use_file
from procrustean.base.table_formats import table_of
from procrustean.cli.values import OptionalName


@dataclass(frozen=True)
class Methods:
    """List the training methods, or explain one."""

    name: OptionalName = None
    """Method to explain, one of your own as FILE.py:NAME; without it all are listed."""
    check: bool = False
    """Try it on the digits, half a minute: whether it trains, repeats itself, and can be resumed and loaded."""

    def run(self) -> int:
        from procrustean.methods.make import METHODS

        if self.check:
            return self._tried()
        if self.name is not None:
            write_result(_explained(use_file(pinned_name(self.name))))
            return 0
        column = max(map(len, METHODS)) + 2
        lines = [f"{name:{column}}{_summary(name)}" for name in METHODS]
        write_result("\n".join([*lines, "", "procrustean list methods NAME explains one."]))
        return 0

    def _tried(self) -> int:
        from procrustean.runs.method_trial import try_method

        if self.name is None:
            raise ConfigError("--check received without a method; name one: procrustean list methods NAME --check")
        right = True
        for trial in try_method(use_file(pinned_name(self.name))):
            accuracy = "" if trial.accuracy is None else f", test balanced accuracy {100 * trial.accuracy:.1f} %"
            if trial.guesses:
                accuracy += ", which is not above chance: in these few epochs it has learnt nothing that shows"
            write_result(
                f"{trial.name}: {'; '.join(trial.faults) or 'trains, repeats itself, goes on, is loaded'}{accuracy}"
            )
            right = right and not trial.faults
        return 0 if right else 1


def _explained(name: str) -> str:
    from procrustean.methods.make import entry, factory, option_defaults

    made, known = factory(name), entry(name)
    defaults = ", ".join(f"{k}={v!r}" for k, v in option_defaults(name).items())
    rows = f"{', '.join(known.rows)} in the paper" if known.rows else "not in the paper"
    if own := file_code(name):
        rows = f"your own, sha256 {own.sha256}"
    facts = (
        f"Defaults: {defaults or 'no options'}",
        f"Training time relative to ERM: {known.cost}",
        f"Source: {known.source}",
    )
    parts = [f"{plain_name(name)} ({rows})", (inspect.getdoc(made) or "").strip(), "\n".join(facts)]
    return "\n\n".join(filter(None, parts))


def _summary(name: str) -> str:
    from procrustean.methods.make import factory

    return (inspect.getdoc(factory(name)) or "").partition("\n")[0]


@dataclass(frozen=True)
class Nets:
    """List the networks, or show the groups of one."""

    name: OptionalName = None
    """Network to show, timm:NAME, torchvision:NAME and one of your own, FILE.py:NAME, included; without it those of
    this library are listed."""

    def run(self) -> int:
        from procrustean.data.recipe import Adapter
        from procrustean.nets.adapters import takes_adapters
        from procrustean.nets.build import layers_of
        from procrustean.nets.net_table import NETS

        names = NETS if self.name is None else [use_file(pinned_name(self.name, "network"))]
        rows = []
        for name in names:
            net = layers_of(name)
            # The head for 1000 classes is what published counts include.
            weights = sum(p.numel() for p in net.parameters()) + (net.features + 1) * 1000
            side = f"1/{net.shrinks}" if net.shrinks else ""
            second = net.groups.get(net.second_group, "")
            rows.append((plain_name(name), f"{weights:,}", str(net.features), side, second))
        columns = ("network", "parameters, 1000 classes", "features", "side of the last map", "second group")
        headings = dict(zip(columns, columns, strict=True))
        table = table_of("Networks", headings, rows, words=("network", "second group"))
        if self.name is None:
            more = (
                "Of other libraries: timm:NAME, torchvision:NAME, hf:ORGANISATION/MODEL. procrustean list nets NAME "
                "shows the layers of one, and what of it can learn (--tune)."
            )
        else:
            tunes = ["all", "head", *(get_args(Adapter) if takes_adapters(net) else ())]
            groups = [f"{group}: backbone.{path}" for group, path in net.groups.items()]
            more = "\n".join([*groups, f"--tune: {', '.join(tunes)}"])
        write_result(table, more)
        return 0


@dataclass(frozen=True)
class Layers:
    """Show the layers of a model that MFW can be attached to.

    The one that is the paper's second group is named.

    Example: procrustean list layers torchvision:resnet50
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """Network of this library (resnet32), torchvision:NAME, timm:NAME; for your own FILE.py:NAME or
    package.module:factory, a function or class that is called without arguments."""
    size: int | None = None
    """Side of the images; default what the model is made for: 32 for this library's, 224 where nothing says so."""
    channels: int = 3
    """Colour channels of the images."""
    every: bool = False
    """List every layer that can be mixed at, not the main ones alone."""

    def run(self) -> int:
        import torch

        from procrustean.balance.layers import suggest
        from procrustean.nets.build import model_by_name

        if (self.size is not None and self.size < 1) or self.channels < 1:
            raise ConfigError(f"images of {self.size} pixels and {self.channels} channels received; at least 1 each")
        model, usual = model_by_name(self.model, channels=self.channels)
        size = self.size or usual
        try:
            suggestion = suggest(model, torch.zeros(2, self.channels, size, size), every=self.every)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ConfigError(
                f"{self.model} cannot be run on images of {self.channels} x {size} x {size} ({error}); "
                "say what it takes with --size and --channels"
            ) from error
        write_result(str(suggestion))
        return 0


@dataclass(frozen=True)
class Recipes:
    """List the training recipes, or show the numbers of one."""

    name: OptionalName = None
    """Recipe to show; without it all are listed."""

    def run(self) -> int:
        import yaml

        from procrustean.data.recipes import FINE_TUNING, OWN_IMAGES, PAPER, RECIPES

        if self.name is None:
            width = max(map(len, RECIPES))
            lines = [f"{name:{width}}  {about}" for name, (_, about) in RECIPES.items()]
            more = "procrustean list recipes NAME shows one; train --recipe NAME takes it."
            write_result("\n".join([*lines, "", more]))
            return 0
        if self.name not in RECIPES:
            raise ConfigError(f"there is no recipe {self.name!r}. {did_you_mean(self.name, RECIPES)}")
        recipe, about = RECIPES[self.name]
        sources = [source for source, name in PAPER.items() if name == self.name]
        taken = f"# taken by itself on {', '.join(sources)}\n" if sources else ""
        if self.name in (OWN_IMAGES, FINE_TUNING):
            taken += "# padding is that of 32 x 32 images; of others it is an eighth of their longer side\n"
        numbers = yaml.safe_dump(recipe.to_json(), sort_keys=False, default_flow_style=None)
        write_result(f"# {about}\n{taken}{numbers}".rstrip())
        return 0


@dataclass(frozen=True)
class Sources:
    """List the data sets that can be named."""

    def run(self) -> int:
        from procrustean.data.sources import describe_sources

        write_result("\n".join(f"{name:22} {text}" for name, text in describe_sources().items()))
        return 0
