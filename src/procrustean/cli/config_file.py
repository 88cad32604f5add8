"""Settings in YAML: read for `--config`, written for `--dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from procrustean.base.yaml_files import read_yaml as read_yaml
from procrustean.records.run_spec import RunSpec, typed_settings


def config_argument(arguments: Sequence[str]) -> Path | None:
    """The file named by --config, which has to be read before the flags that override it are."""
    for index, argument in enumerate(arguments):
        if argument.startswith("--config="):
            return Path(argument.partition("=")[2])
        if argument == "--config" and index + 1 < len(arguments):
            return Path(arguments[index + 1])
    return None


def read_config(path: Path) -> dict[str, Any]:
    """Settings from a YAML file; unknown or ill-typed ones are refused by name."""
    return typed_settings(read_yaml(path), origin=str(path))


def config_as_yaml(config: RunSpec) -> str:
    """All settings of a run, in a form that --config reads again."""
    import yaml

    text: str = yaml.safe_dump(config.to_json(), sort_keys=False)
    return text
