"""Whether what was chosen is what the method takes by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.types import Problem
from procrustean.base.code_files import plain_name
from procrustean.data.recipes import data_set
from procrustean.engine.prepared import (
    known_source,
)
from procrustean.methods.make import checked_options, make_method, option_defaults
from procrustean.nets.build import layers_of
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import (
    effective_options,
)
from procrustean.runs.tuning.suggested import Options


def default_text(method: str) -> str:
    """A sentence for a choice that is the default."""
    return f" This is the default of {plain_name(method)} here: training without tuning takes it, too."


def is_default(base: RunSpec, chosen: Options, record: RunRecord) -> bool:
    """Whether options, if there are any, are those that the method takes by itself.

    Args:
        base: the settings that all candidates share.
        chosen: options.
        record: of a candidate, for the images and the network, on which defaults may depend.
    """
    if not chosen:
        return False
    data, defaults = record.data, option_defaults(base.method)
    counts = tuple(data.counts)
    height, width, channels = data.image_shape
    layers = layers_of(record.recipe.net, channels=channels, classes=len(counts), size=(height, width))
    source = data_set(known_source(data.source, base))
    problem = Problem.on(layers, counts, kind_for_methods(data.kind, counts), source)
    others = {name: value for name, value in base.options.items() if name not in chosen}
    method = make_method(base.method, problem, effective_options(replace(base, options=others)))

    def default(name: str) -> Any:
        # None is left open until the images are known.
        return method.resolved.get(name) if defaults[name] is None else defaults[name]

    return all(value == default(name) for name, value in checked_options(base.method, chosen).items())
