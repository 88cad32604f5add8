"""How a method is made from its name and options.

Adding a method is one file in this folder and one line in METHODS, the table in `procrustean.methods.method_table`.
Methods of a user's own files are in neither: they are named FILE.py:NAME.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec

from procrustean.balance.types import Problem
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import file_code, plain_name
from procrustean.methods.method import Method
from procrustean.methods.method_table import METHODS as METHODS
from procrustean.methods.method_table import Entry as Entry


def entry(name: str) -> Entry:
    """What is known about a method, the library's or one of a file, which is not imported for it."""
    own = file_code(name)
    if own is not None:
        return Entry((), own.path, cost="1 (not measured)")
    check_name(name)
    return METHODS[name]


def check_name(name: str) -> None:
    """ConfigError for a name that is not in the table, with the one that was probably meant."""
    if name == "auto":
        raise ConfigError(
            "method 'auto' received, which compares methods and is for procrustean train alone; one method is needed "
            "here: name it, for example --method mfw. See: procrustean list methods"
        )
    if name not in METHODS:
        plain = name.lower().replace("-", "_").removesuffix("_drw")
        if plain in METHODS and plain != name:
            drw = " --drw" * name.lower().endswith("drw")
            raise ConfigError(f"there is no method {name!r}; write --method {plain}{drw}")
        known = (*METHODS, "auto")  # the latter is for `train`, which compares methods
        raise ConfigError(f"there is no method {name!r}. {did_you_mean(name, known)} See: procrustean list methods")


def factory(name: str) -> Callable[..., Method]:
    """The function that builds the method; one of a file only where the user has named the file (`use_file`)."""
    if file_code(name) is not None:
        from procrustean.methods.own_method import factory_in_file

        return factory_in_file(name)
    check_name(name)
    made: Callable[..., Method] = getattr(import_module(f"procrustean.methods.{name}"), name)
    return made


def make_method(name: str, problem: Problem, options: Mapping[str, Any] | None = None) -> Method:
    """Build a method from its name and options; options may be strings, as they come from the command line.

    >>> problem = Problem(counts=(50, 5), kind="step", layers=("input", "group1", "group2"))
    >>> make_method("focal", problem, {"gamma": "2"}).label
    'Focal'
    """
    checked = checked_options(name, options or {})
    if file_code(name) is None:
        return factory(name)(problem, **checked)
    from procrustean.methods.own_method import build_from_file

    return build_from_file(name, problem, checked)


def of_the_head(method: Method, name: str) -> Method:
    """The method where the head alone is trained, on features that were computed beforehand."""
    why = entry(name).on_images
    if why:
        raise ConfigError(f"tune 'head' received, but {method.label} needs the images: {why}; use --tune all")
    stages = tuple(
        replace(stage, trainable="head" if stage.trainable == "all" else stage.trainable, rates={}, norm="eval")
        for stage in method.stages
    )
    return replace(method, stages=stages)


def with_adapter(method: Method, parts: tuple[str, ...]) -> Method:
    """The method where an adapter, parts of the backbone, and the head learn; weights of an adapter do not decay."""
    for stage in method.stages:
        named = (stage.trainable,) if isinstance(stage.trainable, str) else stage.trainable
        if any(part.partition(".")[0] == "backbone" for part in named):
            raise ConfigError(
                f"an adapter received to tune, but the stage {stage.name!r} of {method.label} says itself what of the "
                f"backbone learns: {', '.join(named)}; use --tune all"
            )
    stages = tuple(
        replace(stage, trainable=(*parts, "head"), norm="eval", no_decay=(*stage.no_decay, *parts))
        if stage.trainable == "all"
        else stage
        for stage in method.stages
    )
    return replace(method, stages=stages)


def option_defaults(name: str) -> dict[str, Any]:
    """The method's options and their defaults, in the order of its signature."""
    return {p.name: p.default for p in _parameters(factory(name)) if p.kind is p.KEYWORD_ONLY}


# A table of results asks about the same few functions a thousand times over.
@lru_cache(maxsize=128)
def _parameters(made: Callable[..., Method]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(made).parameters.values())


@lru_cache(maxsize=128)
def _hints(made: Callable[..., Method]) -> Mapping[str, Any]:
    return types.MappingProxyType(typing.get_type_hints(made))


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their types, or a ConfigError that names the one at fault."""
    known, refused, shown = option_defaults(name), entry(name).refused, plain_name(name)
    hints = _hints(factory(name))
    checked = {}
    for key, value in options.items():
        if key in refused:
            raise ConfigError(f"method {shown!r} takes no {key}: {refused[key]}")
        if key not in known:
            listed = ", ".join(f"{k}={v!r}" for k, v in known.items()) or "none"
            raise ConfigError(f"method {shown!r} has no option {key!r}. {did_you_mean(key, known)} Options: {listed}")
        try:
            checked[key] = _converted(value, hints[key])
        except msgspec.ValidationError:
            wanted = _type_name(hints[key])
            raise ConfigError(
                f"option {key} = {value!r} of method {shown!r} is not {wanted}; default {known[key]!r}"
            ) from None
    return checked


def _converted(value: Any, hint: Any) -> Any:
    """The value with the type of an option, from a text too, as it comes from the command line."""
    if isinstance(value, float):  # numpy's too
        value = float(value)
    elif value in ("none", "None") and type(None) in typing.get_args(hint):
        value = None
    return msgspec.convert(value, hint, strict=False)


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join(_type_name(choice) for choice in typing.get_args(hint))
    names = {
        type(None): "none",
        float: "a number",
        int: "a whole number",
        bool: "true or false",
        str: "a text",
    }
    return names.get(hint) or str(hint.__name__)
