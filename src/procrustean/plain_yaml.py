"""YAML files of plain settings: no objects, no more than a person would write, also once aliases are written out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    from yaml import Node

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping from a YAML file, of plain data only."""
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path} has more than {MOST_BYTES:,} bytes; settings are shorter")
        text = data.decode("utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is not None and _written_out(tree, {}) > MOST_VALUES:
            raise ConfigError(f"{path} stands for more than {MOST_VALUES:,} values once its aliases are written out")
        content = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path} ({error.strerror})") from error
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no text, impossible dates
        raise ConfigError(f"{path} is not valid YAML ({error})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds {type(content).__name__}, not settings; write `source: digits` and so on")
    return content


def _written_out(node: Node, known: dict[int, int | None]) -> int:
    """How many values a node stands for; an alias counts as often as it is used."""
    if id(node) in known:
        count = known[id(node)]
        if count is None:
            raise ConfigError("an alias that stands inside itself received; settings cannot be endless")
        return count
    known[id(node)] = None
    inside: list[Node] = []
    for item in node.value if not isinstance(node.value, str) else ():
        inside.extend(item if isinstance(item, tuple) else (item,))
    total = 1 + sum(_written_out(child, known) for child in inside)
    known[id(node)] = total
    return total
