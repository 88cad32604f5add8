"""JSON files kept beside runs and models: written from typed values, read back as such, and refused in one place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from procrustean.base.errors import ConfigError, RunError

#: Of all these files.
FORMAT: Final = 1

T = TypeVar("T")


def parse_json(content: bytes) -> Any:
    """What JSON holds, as plain data; ValueError where it is none."""
    try:
        return msgspec.json.decode(content)
    except msgspec.MsgspecError as error:
        if "surrogate" in str(error):  # in a name of a file that is no text, which msgspec does not read
            return json.loads(content, parse_constant=_finite, parse_float=_finite)
        raise ValueError(str(error)) from error


def read_typed(path: Path, kind: type[T], remedy: str, check: Callable[[Any], object] = lambda content: None) -> T:
    """The value of a type that a JSON file holds.

    Args:
        path: the file.
        kind: a type with fields, which is what msgspec checks the content against.
        remedy: what to do where it is damaged, for the message.
        check: raises a ConfigError where the plain content, which has the fields of the type, is not right.

    Raises:
        RunError: naming the file and the field that is none, or the format that this version does not read.
    """
    try:
        content = parse_json(path.read_bytes())
        check_format(content, path)
        typed = to_typed(content, kind)
        check(content)
        return typed
    except OSError as error:
        raise RunError(f"cannot read {path} ({error.strerror or error})") from error
    except (ValueError, RecursionError, ConfigError) as error:
        raise RunError(f"{path} is damaged ({error}); {remedy}") from error


def to_typed(content: Any, kind: type[T]) -> T:
    """Plain data of JSON as a value of a type; msgspec.ValidationError names the field that does not fit."""
    return msgspec.convert(content, kind, dec_hook=_from_text, str_keys=True)  # the keys of JSON are text


def to_plain(value: Any) -> Any:
    """A typed value as plain data for JSON or YAML; the reverse of `to_typed`."""
    return msgspec.to_builtins(value, enc_hook=str)


def typed_json(value: Any, indent: int = 1) -> bytes:
    """A typed value as JSON; in one line with an indent of 0."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=str)
        return (msgspec.json.format(encoded, indent=indent) if indent else encoded) + b"\n"
    except UnicodeEncodeError:  # names of files that are no text
        plain = json.loads(json.dumps(to_plain(value)), parse_constant=lambda _: None)  # as msgspec writes NaN
        return (json.dumps(plain, indent=indent or None) + "\n").encode()


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def check_format(content: Any, path: Path) -> None:
    """RunError for a file of another format, which need not have the fields of this one."""
    found = content.get("format", FORMAT) if isinstance(content, dict) else FORMAT
    if found != FORMAT:
        raise RunError(
            f"{path} has format {found!r:.20}; this version of procrustean reads format {FORMAT}. "
            "Use the version that wrote it, or a newer one"
        )


def _from_text(kind: type[T], value: Any) -> T:
    """Types of settings that JSON has as text: paths."""
    if kind is Path and isinstance(value, str):
        return kind(value)  # type: ignore[call-arg]
    raise TypeError(f"a {kind.__name__} is expected, {value!r:.60} is there")
