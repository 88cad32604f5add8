"""YAML files of plain settings: no objects, every key once, no more than a person would write, aliases written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError

if TYPE_CHECKING:
    from yaml import Node, SafeLoader

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000
#: `<<` takes settings over from another mapping, and from several if it stands there several times.
MERGE = "tag:yaml.org,2002:merge"
WHOLE = "tag:yaml.org,2002:int"
NUMBERS = (WHOLE, "tag:yaml.org,2002:float")
#: No whole number of 64 bits takes more characters, in any base.
MOST_DIGITS = 100


def read_yaml(path: Path, *, example: str = "source: digits") -> dict[str, Any]:
    """A mapping from a YAML file, of plain data only.

    Args:
        path: the file.
        example: how such a file may begin, for the error where it holds no mapping.
    """
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path} has more than {MOST_BYTES:,} bytes; settings are shorter")
        content = parse_yaml(data.decode("utf-8"), origin=str(path))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path} ({error.strerror})") from error
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no text, impossible dates
        raise ConfigError(f"{path} is not valid YAML ({error})") from error
    if not isinstance(content, dict):
        held = "is empty" if content is None else f"holds {type(content).__name__}, not a mapping"
        raise ConfigError(f"{path} {held}; write `{example}` and so on")
    return content


def parse_yaml(text: str, *, origin: str) -> Any:
    """What a text of YAML holds, of plain data only; a key that stands twice in one mapping is refused.

    YAML's own readers take the last of them without a word, and the other settings are lost.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None
        if _written_out(tree, {}) > MOST_VALUES:
            raise ConfigError(f"{origin} stands for more than {MOST_VALUES:,} values once its aliases are written out")
        _refuse_repeated_keys(tree, origin)
        _refuse_odd_numbers(tree, origin, loader)
        return loader.construct_document(tree)
    finally:
        loader.dispose()


def _refuse_repeated_keys(tree: Node, origin: str) -> None:
    from yaml import MappingNode, ScalarNode

    for node in _nodes(tree):
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag == MERGE:
                continue
            if (key.tag, key.value) in lines:
                first = lines[key.tag, key.value]
                raise ConfigError(
                    f"{origin} has {key.value!r} twice in one mapping, in line {first} and in line {line}; only one of "
                    "them could count. Remove one, or give it another name"
                )
            lines[key.tag, key.value] = line


def _refuse_odd_numbers(tree: Node, origin: str, loader: SafeLoader) -> None:
    """Refuse numbers that are not what one reads: of YAML's base 60, and whole ones beyond 64 bits."""
    for node in _nodes(tree):
        if node.tag not in NUMBERS:
            continue
        where = f"{origin}, line {node.start_mark.line + 1}: {node.value!r:.40}"
        if ":" in node.value:
            raise ConfigError(f"{where} is a number in base 60 to YAML; write it with digits alone, a text in quotes")
        if node.tag == WHOLE and (len(node.value) > MOST_DIGITS or not fits(loader.construct_yaml_int(node))):
            raise ConfigError(f"{where} is a whole number of more than 64 bits; write a smaller one")


def fits(value: int) -> bool:
    """Whether a whole number has a place in 64 bits, with its sign."""
    return -(2**63) <= value < 2**63


def _nodes(tree: Node) -> Iterator[Node]:
    """A node and all nodes inside it, each once."""
    waiting, seen = [tree], {id(tree)}
    while waiting:
        node = waiting.pop()
        yield node
        new = {id(child): child for child in _inside(node) if id(child) not in seen}
        seen.update(new)
        waiting.extend(new.values())


def _inside(node: Node) -> list[Node]:
    inside: list[Node] = []
    for item in node.value if not isinstance(node.value, str) else ():
        inside.extend(item if isinstance(item, tuple) else (item,))
    return inside


def _written_out(node: Node, known: dict[int, int | None]) -> int:
    """How many values a node stands for; an alias counts as often as it is used."""
    if id(node) in known:
        count = known[id(node)]
        if count is None:
            raise ConfigError("an alias that stands inside itself received; settings cannot be endless")
        return count
    known[id(node)] = None
    total = 1 + sum(_written_out(child, known) for child in _inside(node))
    known[id(node)] = total
    return total
