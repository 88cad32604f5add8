"""Whether the parts of a method are what they have to be: training would fail at them later, or take no notice."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from numbers import Integral, Real

from procrustean.balance.objectives import Objective
from procrustean.base.code_names import code_name
from procrustean.base.errors import ConfigError, one_of
from procrustean.data.recipes import OWN_IMAGES, RECIPES
from procrustean.methods.base import Method, Stage


def check_parts(made: Method, name: str) -> None:
    """ConfigError for a part that no training can use, whatever the network and the images.

    Args:
        made: the method.
        name: of the method in messages.
    """
    stages: object = made.stages
    if not isinstance(stages, tuple | list) or not stages or not all(isinstance(stage, Stage) for stage in stages):
        raise ConfigError(
            f"{name}: stages of type {type(stages).__name__} received that are no Stages; give a tuple of them, in "
            "which a single one has a comma behind it: stages=(Stage(objective),)"
        )
    check_shares(made, name)
    for stage in made.stages:
        _check_stage(stage, name)
    _check_call(f"{name}: head", made.head, "features", "classes")
    _check_call(f"{name}: finish", made.finish, "net", "judge")
    if not isinstance(made.label, str) or not made.label:
        raise ConfigError(f"{name}: label = {made.label!r} received; give the name that it has in tables")


def check_shares(made: Method, name: str) -> None:
    """ConfigError for stages that do not share out all epochs, no more and no fewer."""
    shares = [stage.share for stage in made.stages]
    fine = all(isinstance(share, Real) and share > 0 for share in shares)
    if fine and math.isclose(math.fsum(shares), 1, abs_tol=1e-6):
        return
    total = f", which add up to {math.fsum(shares):g}" if fine else ""
    raise ConfigError(
        f"{name}: stages with the shares {' and '.join(map(_shown, shares))} of the epochs received{total}; give each "
        "its part, above 0, so that they add up to 1: Stage(..., share=0.5)"
    )


def _shown(share: object) -> str:
    return f"{share:g}" if isinstance(share, Real) else repr(share)


def _check_stage(stage: Stage, name: str) -> None:
    if not isinstance(stage.objective, Objective):
        raise ConfigError(
            f"{name}: a Stage of {type(stage.objective).__name__} received; give it an objective, for a loss "
            "Stage(Classify(loss=...)), from procrustean.balance"
        )
    where = f"{name}, stage {stage.name!r}"
    one_of(f"{where}: norm", stage.norm, ("train", "eval"))
    one_of(f"{where}: extra_from", stage.extra_from, ("train", "meta"))
    few = isinstance(stage.meta_per_class, Integral) and stage.meta_per_class >= 1
    rules = {
        "name": (isinstance(stage.name, str), "give the text that progress and records show"),
        "trainable": (isinstance(stage.trainable, str), "give 'all' or the name of a part of the network: 'head'"),
        "meta_per_class": (few, "give a whole number of images, above 0"),
        "rates": (_are_rates(stage.rates), "give factors of the rate by parts of the network: {'head': 0.1}"),
        "no_decay": (_are_names(stage.no_decay), "give a tuple of parts of the network: ('head.bias',)"),
        "recipe": (isinstance(stage.recipe, Mapping), "give changes by name: {'lr': 0.01}"),
    }
    for field, (fine, wanted) in rules.items():
        if not fine:
            raise ConfigError(f"{where}: {field} = {getattr(stage, field)!r} received; {wanted}")
    try:
        stage.changed(RECIPES[OWN_IMAGES][0])  # any: what can be changed is the same in all
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{name}: {error}") from error
    _check_call(f"{where}: sampler", stage.sampler, "labels", "count", "stream")
    _check_call(f"{where}: extra", stage.extra, "labels", "count", "stream")
    _check_call(f"{where}: reshape", stage.reshape, "net")
    _check_call(f"{where}: begin", stage.begin, "net", "batches")


def _are_rates(rates: object) -> bool:
    return isinstance(rates, Mapping) and all(
        isinstance(part, str) and isinstance(factor, Real) and 0 <= float(factor) < math.inf
        for part, factor in rates.items()
    )


def _are_names(names: object) -> bool:
    # A text alone would be taken for its letters.
    return isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)


def _check_call(where: str, function: object, *arguments: str) -> None:
    """ConfigError for what cannot be called with these arguments; None stands for a function that is not needed."""
    if function is None:
        return
    wanted = f"write a function of ({', '.join(arguments)})"
    if not callable(function):
        raise ConfigError(f"{where} = {function!r} received; {wanted}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # some that are written in C have none
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigError(
            f"{where}: {code_name(function)} takes {signature}, but is called with {len(arguments)} argument"
            f"{'s' * (len(arguments) > 1)}; {wanted}"
        ) from error
