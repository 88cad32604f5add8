"""How tyro reads the values of flags: what cannot be read is answered in words, and options may be left open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructTypeInfo,
)

from procrustean.base.errors import suggestion
from procrustean.base.yaml_files import parse_yaml
from procrustean.records.setting_types import VALUES_ALSO_CALLED

#: Arguments of commands: a run, several of them, a source of images, a name that may be left out.
RunArgument = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
RunArguments = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
SourceArgument = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
OptionalName = Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")]
#: Flags of several commands.
Quiet = Annotated[bool, tyro.conf.arg(help="No progress.")]
DataDir = Annotated[
    Path | None,
    tyro.conf.arg(help="Where data sets are found or downloaded to; default $PROCRUSTEAN_DATA or the user's cache."),
]
OwnMethod = Annotated[
    str | None,
    tyro.conf.arg(help="The file of its method, if it is one of your own: FILE.py. It has to be what it was."),
]
OwnNet = Annotated[str | None, tyro.conf.arg(help="The file of its network, likewise.")]
Width = Annotated[int | None, tyro.conf.arg(help="Most runs at a time; default 8 on a GPU, 1 on a CPU.")]
Minutes = Annotated[
    float | None,
    tyro.conf.arg(help="Stop after so many minutes with everything saved; the same command goes on later."),
]

Spec = PrimitiveConstructorSpec[Any]

NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}
#: What stands for an option that was not given, on the command line, where it undoes a file's.
LEFT_OPEN = "None"


def value_rules(*, offered: bool = False) -> ConstructorRegistry:
    """The rules.

    Args:
        offered: let tyro know the names that are accepted, for the completion of a shell. Where it knows them while it
            reads a command line, it refuses all others by itself, those with hyphens for underscores too.
    """
    registry = ConstructorRegistry()
    for rule in (_number, _offered_choice if offered else _choice, _several, _perhaps_open, _key_value):
        registry.primitive_rule(rule)
    registry.struct_rule(_Command())
    return registry


def _default_text(default: str) -> str:
    """What the help says of a default; nothing of flags that have none, or are off."""
    return "" if default in ("", "False") else f"(default: {default})"


class _Command:
    """A command as tyro reads it, with our words about defaults."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self, info: StructTypeInfo) -> StructConstructorSpec | None:
        if self._asked:  # by itself, for what the rules of tyro say
            return None
        self._asked = True
        spec = ConstructorRegistry.get_struct_spec(info)
        self._asked = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        hint = tyro.conf.arg(help_behavior_hint=_default_text)
        return replace(spec, fields=tuple(replace(f, type=cast(Any, Annotated[f.type, hint])) for f in spec.fields))


def _number(info: PrimitiveTypeInfo) -> Spec | None:
    kind: Callable[[str], float] = info.type
    if kind not in NUMBERS:
        return None

    def read(texts: list[str]) -> float:
        try:
            return kind(texts[0])
        except ValueError:
            raise ValueError(f"{texts[0]!r} received; it has to be {NUMBERS[kind]}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [str(value)],
    )


def _choice(info: PrimitiveTypeInfo) -> Spec | None:
    """One of several names, in which hyphens and underscores are the same."""
    names = get_args(info.type)
    if get_origin(info.type) is not Literal or not all(isinstance(name, str) for name in names):
        return None

    def read(texts: list[str]) -> str:
        given = texts[0]
        for name in names:
            if name.replace("_", "-") == given.replace("_", "-"):
                return str(name)
        other = VALUES_ALSO_CALLED.get(given.lower(), given)
        near = suggestion(other if other in names else given, names, limit=1)
        raise ValueError(" ".join(filter(None, (f"{given!r} received.", near, f"Accepted: {', '.join(names)}"))))

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(names)}}}",
        instance_from_str=read,
        is_instance=lambda value: value in names,
        str_from_instance=lambda value: [value],
    )


def _offered_choice(info: PrimitiveTypeInfo) -> Spec | None:
    spec = _choice(info)
    return None if spec is None else replace(spec, choices=get_args(info.type))


def _several(info: PrimitiveTypeInfo) -> Spec | None:
    kinds = get_args(info.type)
    one = _spec_of(kinds[0], info) if info.type_origin is tuple and kinds[1:] == (...,) else None
    if one is None or one.nargs != 1:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"[{one.metavar} [{one.metavar} ...]]",
        instance_from_str=lambda texts: tuple(one.instance_from_str([text]) for text in texts),
        is_instance=lambda values: isinstance(values, tuple) and all(map(one.is_instance, values)),
        str_from_instance=lambda values: [text for value in values for text in one.str_from_instance(value)],
        choices=one.choices,
    )


def _perhaps_open(info: PrimitiveTypeInfo) -> Spec | None:
    kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
    optional = info.type_origin in (Union, UnionType) and NoneType in get_args(info.type) and len(kinds) == 1
    given = _spec_of(kinds[0], info) if optional else None
    if given is None or given.nargs != 1:
        return None

    def read(texts: list[str]) -> Any:
        return None if texts == [LEFT_OPEN] else given.instance_from_str(texts)

    return replace(
        given,
        instance_from_str=read,
        is_instance=lambda value: value is None or given.is_instance(value),
        str_from_instance=lambda value: [] if value is None else given.str_from_instance(value),
    )


def _key_value(info: PrimitiveTypeInfo) -> Spec | None:
    """Options of a method."""
    if info.type_origin is not dict:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="KEY=VALUE",
        instance_from_str=_read_pairs,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda options: [f"{key}={value}" for key, value in options.items()],
    )


def _read_pairs(pairs: list[str]) -> dict[str, Any]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ValueError(f"{pair!r} received; write KEY=VALUE, for example alpha=0.5")
        options[key] = _plain(value)
    return options


def _plain(text: str) -> Any:
    """The value a configuration file would hold: alpha=3 and `alpha: 3` are the same setting."""
    import yaml

    try:
        value = parse_yaml(text, origin="the value")
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | str | None) else text


def _spec_of(kind: Any, info: PrimitiveTypeInfo) -> Spec | None:
    found = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
    return found if isinstance(found, PrimitiveConstructorSpec) else None
