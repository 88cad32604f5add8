"""Methods from files of the user's: checks of the function that builds one, and of what it returns."""

from __future__ import annotations

import copy
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import torch
from msgspec import Meta

from procrustean.balance.losses import scale_of_scores
from procrustean.balance.objectives import Classify, Objective
from procrustean.balance.types import Batch, Problem
from procrustean.base.errors import ConfigError, ProcrusteanError
from procrustean.base.own_code import FileCode, code_name, error_in, named_code, object_in_file
from procrustean.data.recipes import OWN_IMAGES, RECIPES
from procrustean.methods.method import Method, Stage, check_shares

#: What a stage says in plain values.
PLAIN = {
    "name": str,
    "extra_from": Literal["train", "meta"],
    "meta_per_class": Annotated[int, Meta(ge=1)],
    "trainable": str | Annotated[tuple[str, ...], Meta(min_length=1)],
    "norm": Literal["train", "eval"],
    "rates": dict[str, Annotated[float, Meta(ge=0)]],
    "no_decay": tuple[str, ...],
    "recipe": dict[str, Any],
}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def factory_in_file(name: str) -> Callable[..., Method]:
    """The function that builds a method of a file; refuses files that the user has not named in this process."""
    own, _, made = object_in_file(name)
    if not inspect.isfunction(made):
        raise ConfigError(f"{own.plain} is no function; name one that builds a method")
    _check_signature(made, own)
    return made


def build_from_file(name: str, problem: Problem, options: Mapping[str, Any]) -> Method:
    """The method that the function builds, checked; an error in the function is reported with its line."""
    own, code = named_code(name)
    build = factory_in_file(name)
    try:
        made: object = build(problem, **options)
    except ProcrusteanError:
        raise
    except (Exception, SystemExit) as error:  # whatever the function does
        raise ConfigError(f"{own.plain} builds no method: {error_in(code, error)}") from error
    if not isinstance(made, Method):
        raise ConfigError(
            f"{own.plain} returned {type(made).__name__}, not a Method; end it with return Method(stages=..., "
            "label=...), from procrustean.methods"
        )
    check_parts(made, own.plain)
    return made


def _check_signature(made: Callable[..., Any], own: FileCode) -> None:
    """Refuse a function whose options the command line could not be made from."""
    arguments = list(inspect.signature(made).parameters.values())
    wanted = f"write def {own.function}(problem: Problem, *, option: float = 0.1) -> Method"
    if not arguments or arguments[0].name != "problem" or arguments[0].kind not in _POSITIONAL:
        raise ConfigError(f"{own.plain} builds no method: its first argument has to be problem; {wanted}")
    try:
        hints = typing.get_type_hints(made)
    except Exception as error:  # names that are imported for type checkers alone, and anything else in a hint
        raise ConfigError(f"{own.plain}: a type hint means nothing here ({error}); import what it names") from error
    for option in arguments[1:]:
        where = f"{own.plain}: the argument {option.name!r}"
        if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
            raise ConfigError(f"{where} is no option: options are keyword-only and have a default; {wanted}")
        if not _is_option_type(hints.get(option.name)):
            raise ConfigError(
                f"{where} has no type that an option can have; accepted: int, float, bool, str, Literal[...], "
                f"and unions of these with None; {wanted}"
            )


def _is_option_type(hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return all(map(_is_option_type, typing.get_args(hint)))
    return typing.get_origin(hint) is typing.Literal or hint in (int, float, bool, str, type(None))


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


def _check_stage(stage: Stage, name: str) -> None:
    if not isinstance(stage.objective, Objective):
        raise ConfigError(
            f"{name}: a Stage of {type(stage.objective).__name__} received; give it an objective, for a loss "
            "Stage(Classify(loss=...)), from procrustean.balance"
        )
    where = f"{name}, stage {stage.name!r}"
    for field, kind in PLAIN.items():
        value = getattr(stage, field)
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{where}: {field} = {value!r} received: {error}") from None
    try:
        stage.changed(RECIPES[OWN_IMAGES][0])  # any: what can be changed is the same in all
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{name}: {error}") from error
    _check_call(f"{where}: sampler", stage.sampler, "labels", "count", "stream")
    _check_call(f"{where}: extra", stage.extra, "labels", "count", "stream")
    _check_call(f"{where}: reshape", stage.reshape, "net")
    _check_call(f"{where}: begin", stage.begin, "net", "batches")


#: A loss contradicts what it states where it is this many times as steep, or as flat, by both ways to measure it.
CONTRADICTS = 3.0


def check_scale(made: Method, classes: int, name: str) -> None:
    """ConfigError for a loss that multiplies the scores by something else than it states.

    Args:
        made: the method; objectives that do something else with the scores than `Classify` are not measured.
        classes: number of them.
        name: of the method in messages.
    """
    objective = made.stages[-1].objective
    stated = scale_of_scores(objective)
    if not isinstance(objective, Classify) or type(objective).forward is not Classify.forward:
        return
    try:
        with torch.random.fork_rng(devices=[]):
            measured = _measured_scales(copy.deepcopy(objective), classes)
    except Exception:  # training says what is wrong with a loss, and where
        return
    steeper = all(CONTRADICTS * stated < each < math.inf for each in measured)
    # Losses that bound what a sample can cost are flat without a factor, so that a scale of 1 is never too much.
    if steeper or (stated > 1 and all(each < stated / CONTRADICTS for each in measured)):
        raise ConfigError(
            f"{name}: the loss {code_name(objective.loss)} multiplies the scores by about {measured[1]:.3g} before the "
            f"softmax, but states scale = {stated:g}, by which they are calibrated and adjusted after the training; "
            "write the factor as `scale = ...` in the loss, a subclass of Loss of procrustean.balance"
        )


def _measured_scales(objective: Classify, classes: int) -> tuple[float, float]:
    """What a loss multiplies equal scores by: by its slope in the label's, and by its bend in another's.

    For cross-entropy of s * z they are s (1 - 1/C) both. Class weights change the slope alone, focal losses of two
    classes the bend alone.
    """
    labels = torch.linspace(0, classes - 1, min(classes, 8)).long()
    order, other = torch.arange(len(labels)), (labels + 1) % classes
    uniforms = {name: torch.full((len(labels), *shape), 0.5) for name, shape in objective.draws.items()}
    scores = torch.zeros(len(labels), classes, requires_grad=True)
    losses = objective.sample_loss(scores, labels, Batch(scores, labels, order, order, uniforms))
    slopes = torch.autograd.grad(losses.sum(), scores, create_graph=True)[0]
    bends = torch.autograd.grad(slopes[order, other].sum(), scores)[0]
    bend = (bends / slopes)[order, other].max()
    found = torch.stack((-slopes[order, labels].mean(), bend)) * classes / (classes - 1)
    return found[0].item(), found[1].item()


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
