"""How tyro reads and shows the options of a method: KEY=VALUE pairs."""

from __future__ import annotations

from typing import Any

import tyro


def _parse(pairs: list[str]) -> dict[str, Any]:
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
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | str | None) else text


KEY_VALUE = tyro.constructors.ConstructorRegistry()


@KEY_VALUE.primitive_rule
def _key_value(
    type_info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    if type_info.type != dict[str, Any] and type_info.type_origin is not dict:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="KEY=VALUE",
        instance_from_str=_parse,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda options: [f"{key}={value}" for key, value in options.items()],
    )
