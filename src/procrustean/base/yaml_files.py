"""YAML files of plain settings: no objects, every key once, no more than a person would write, aliases written out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError

if TYPE_CHECKING:
    from yaml import MappingNode, SafeLoader, ScalarNode

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
    """What a text of YAML holds, of plain data only; what is lost or read otherwise than it looks is refused."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def flatten_mapping(self, node: MappingNode) -> None:
            if id(node) not in checked:  # one that an alias stands for comes again, with what it has taken over
                checked.add(id(node))
                _refuse_repeated_keys(node, origin)
            super().flatten_mapping(node)

    def number(loader: Loader, node: ScalarNode) -> float:
        return _number(loader, node, origin)

    for tag in NUMBERS:
        Loader.add_constructor(tag, number)
    checked = set[int]()
    loader = Loader(text)
    try:
        content = loader.get_single_data()
    finally:
        loader.dispose()
    _refuse_too_much(content, origin)
    return content


def _refuse_repeated_keys(node: MappingNode, origin: str) -> None:
    """YAML's own readers take the last of them without a word, and the other settings are lost."""
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag == MERGE or not isinstance(key.value, str):
            continue
        if (key.tag, key.value) in lines:
            first = lines[key.tag, key.value]
            raise ConfigError(
                f"{origin} has {key.value!r} twice in one mapping, in line {first} and in line {line}; only one of "
                "them could count. Remove one, or give it another name"
            )
        lines[key.tag, key.value] = line


def _number(loader: SafeLoader, node: ScalarNode, origin: str) -> float:
    """A number, unless it is not what one reads: of YAML's base 60, or a whole one beyond 64 bits."""
    where = f"{origin}, line {node.start_mark.line + 1}: {node.value!r:.40}"
    if ":" in node.value:
        raise ConfigError(f"{where} is a number in base 60 to YAML; write it with digits alone, a text in quotes")
    whole = node.tag == WHOLE
    if whole and (len(node.value) > MOST_DIGITS or not fits(loader.construct_yaml_int(node))):
        raise ConfigError(f"{where} is a whole number of more than 64 bits; write a smaller one")
    value: float = loader.construct_yaml_int(node) if whole else loader.construct_yaml_float(node)
    return value


def fits(value: int) -> bool:
    """Whether a whole number has a place in 64 bits, with its sign."""
    return -(2**63) <= value < 2**63


def _refuse_too_much(content: Any, origin: str) -> None:
    """ConfigError for more values than a person writes; aliases stand for all that is behind them, even themselves."""
    waiting, found = [content], 0
    while waiting:
        value = waiting.pop()
        found += 1
        if found > MOST_VALUES:
            raise ConfigError(f"{origin} stands for more than {MOST_VALUES:,} values once its aliases are written out")
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
