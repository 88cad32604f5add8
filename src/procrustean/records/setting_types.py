"""Settings as people write them in files and in Python: names and types are checked, with a word on what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from procrustean.base.errors import ConfigError, did_you_mean

#: What settings are called elsewhere, where people look for them first.
ALSO_CALLED = {
    **dict.fromkeys(("model", "arch", "architecture", "network", "backbone"), "net"),
    **dict.fromkeys(("learning_rate", "base_lr"), "lr"),
    **dict.fromkeys(("wd", "l2"), "weight_decay"),
    **dict.fromkeys(("out", "output", "output_dir", "out_dir", "save", "save_dir", "name"), "run_dir"),
    **dict.fromkeys(("ratio", "imbalance_ratio", "imb_ratio", "imb_factor"), "rho"),
    **dict.fromkeys(("imb_type", "imbalance_type"), "imbalance"),
    **dict.fromkeys(("val", "val_size", "val_split", "validation_split"), "hold_out"),
    **dict.fromkeys(("amp", "fp16", "bf16", "dtype"), "precision"),
    **dict.fromkeys(("gpu", "cuda"), "device"),
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    **dict.fromkeys(("ema", "swa"), "average"),
    **dict.fromkeys(("loss", "criterion"), "method"),
}
#: And values of them.
VALUES_ALSO_CALLED = {"gpu": "cuda", "exp": "long_tailed", "lt": "long_tailed", "float32": "fp32", "bfloat16": "bf16"}
#: What a value of a type is, in words.
IN_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    Path: "a text",
    tuple[int, ...]: "a list of whole numbers",
    tuple[str, ...]: "a list of names",
    dict[str, Any]: "a mapping of option names to values",
}


def typed_settings(data: Mapping[str, Any], kinds: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Settings with their types; unknown or ill-typed ones are refused by name.

    Args:
        data: the settings by name.
        kinds: the type of every setting that there is.
        origin: where they are from, for messages.
    """
    for key in data:
        if key not in kinds:
            meant = ALSO_CALLED.get(str(key).lower(), str(key))
            near = did_you_mean(meant, [meant] if meant in kinds else kinds)
            raise ConfigError(f"{origin} has an unknown setting {key!r}. {near}")
    return {key: _typed(key, value, kinds[key], origin) for key, value in data.items()}


def _typed(key: str, value: Any, kind: Any, origin: str) -> Any:
    try:
        # Not strict: YAML reads 1e-1 as a text.
        return msgspec.convert(_plain(value), kind, strict=False, dec_hook=lambda wanted, text: wanted(text))
    except msgspec.ValidationError as error:
        wanted = _in_words(kind) + _hint(value, kind)
        if key == "method" and callable(value):
            wanted = "the name of a method, which a record can keep; of one of your own 'FILE.py:NAME'"
        raise ConfigError(f"{origin}: {key} = {value!r} received; it has to be {wanted}") from error


def _plain(value: Any) -> Any:
    """A number of numpy or torch, or a path, as JSON would hold it."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _in_words(kind: Any) -> str:
    given = _without_none(kind)
    return "one of " + ", ".join(get_args(given)) if get_origin(given) is Literal else IN_WORDS[given]


def _without_none(kind: Any) -> Any:
    """A type without the None of settings that may be left open."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return next(member for member in get_args(kind) if member is not type(None))


def _hint(value: Any, kind: Any) -> str:
    """What was probably meant by a value that is called otherwise here."""
    given = _without_none(kind)
    meant = VALUES_ALSO_CALLED.get(str(value).lower())
    if get_origin(given) is Literal and meant in get_args(given):
        return f"; {value} is {meant} here"
    return ""
