"""YAML files of plain settings: no objects, every key once, no more than a person would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from procrustean.base.errors import ConfigError

MOST_VALUES = 100_000
#: `<<` takes settings over from another mapping, and from several if it stands there several times.
MERGE = "tag:yaml.org,2002:merge"


def read_yaml(path: Path, *, example: str = "source: digits") -> dict[str, Any]:
    """A mapping from a YAML file, of plain data only.

    Args:
        path: the file.
        example: how such a file may begin, for the error where it holds no mapping.
    """
    import yaml

    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), origin=str(path))
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
    """What a text of YAML holds, of plain data only; a key that is there twice is refused, since one would be lost."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_mapping_node(self, anchor: str | None) -> Any:
            node = super().compose_mapping_node(anchor)
            lines: dict[str, int] = {}
            for key in (key for key, _ in node.value if isinstance(key.value, str) and key.tag != MERGE):
                line = key.start_mark.line + 1
                if (first := lines.setdefault(key.value, line)) != line:
                    raise ConfigError(
                        f"{origin} has {key.value!r} twice in one mapping, in line {first} and in line {line}; only "
                        "one of them could count. Remove one, or give it another name"
                    )
            return node

    loader = Loader(text)
    try:
        content = loader.get_single_data()
    finally:
        loader.dispose()
    _refuse_too_much(content, origin)
    return content


def _refuse_too_much(content: Any, origin: str) -> None:
    """ConfigError for more values than a person writes; aliases stand for all that is behind them, even themselves."""
    waiting, found = [content], 0
    while waiting:
        value = waiting.pop()
        found += 1
        if found > MOST_VALUES:
            raise ConfigError(f"{origin} stands for more than {MOST_VALUES:,} values once its aliases are written out")
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
