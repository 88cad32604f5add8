"""The method that settings resolve to, as comments below them: what its options come to before data are loaded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..config import RunConfig
from ..counts import Kind
from ..engine.stages import stage_epochs
from ..method_files import plain_name
from ..method_labels import shown_label
from ..methods import checked_options, make_method, option_defaults
from ..methods.base import Method, option_in_use
from ..nets import layers_of
from ..nets.classifier import Backbone
from ..objectives import Mixer
from ..recipes import Recipe, data_set
from ..types import Problem
from ..weights import DeferredWeights, first_deferred

_KINDS: tuple[Kind, ...] = ("long_tailed", "step")


def method_comments(config: RunConfig, recipe: Recipe, tuned: Collection[str] = ()) -> str:
    """Every option of the method with its value, and the kind of imbalance and the epochs that follow from others.

    Args:
        config: the settings.
        recipe: what they resolve to.
        tuned: options that have no value yet, because they are to be chosen.
    """
    backbone = layers_of(recipe.net)
    given = checked_options(config.method, {**config.options, **({"drw": True} if config.drw else {})})
    options = {**option_defaults(config.method), **given}
    # Images as they are may be of either kind, which their counts tell; no more than that is left open without them.
    kinds = [kind for kind in _KINDS if config.imbalance in (kind, "natural")]
    made = {kind: _made(config, kind, backbone, given) for kind in kinds}
    lines = {"kind": " or ".join(kinds) + ", by the counts" * (len(kinds) > 1)}
    for name, value in options.items():
        if name in tuned:
            lines[name] = "to be chosen"
            continue
        found = {kind: _resolved(name, value, method, backbone) for kind, method in made.items()}
        same = len(set(found.values())) == 1
        lines[name] = found[kinds[0]] if same else ", ".join(f"{text} if {kind}" for kind, text in found.items())
    method = made[kinds[0]]
    lines |= _deferred(method, recipe.epochs)
    explained = f"procrustean methods {plain_name(config.method)} explains it"
    title = f"# The method these settings resolve to: {shown_label(method.label)} ({explained})\n"
    return title + "".join(f"# {name}: {text}\n" for name, text in lines.items())


def _made(config: RunConfig, kind: Kind, backbone: Backbone, options: dict[str, Any]) -> Method:
    # Defaults depend on the data set, the kind and the layers, not on the counts: any will do.
    layers = tuple(backbone.groups)
    problem = Problem((2, 1), kind, source=data_set(config.source), layers=layers, second_group=backbone.second_group)
    return make_method(config.method, problem, options)


def _resolved(name: str, value: Any, method: Method, backbone: Backbone) -> str:
    """An option as given, or what the method has made of one that was left open."""
    if name in ("layer", "layers"):
        parts = (module for stage in method.stages for module in stage.objective.modules())
        at = next((part.at for part in parts if isinstance(part, Mixer)), ())
        return ", ".join(f"{one} (backbone.{backbone.groups[one]})" if one in backbone.groups else one for one in at)
    return str(option_in_use(method, name) if value is None else value)


def _deferred(method: Method, epochs: int) -> dict[str, str]:
    for stage, length in zip(method.stages, stage_epochs(method, epochs), strict=True):
        for part in stage.objective.modules():
            if isinstance(part, DeferredWeights):
                first = first_deferred(part.start, length) + 1
                return {"drw sets in": f"in epoch {first} of {length}, after {100 * part.start:g} %"}
    return {}
