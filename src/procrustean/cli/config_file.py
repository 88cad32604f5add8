"""Settings in YAML, read for `--config` and written for `--dry-run`, commands whose flags are settings, and the consent
to code that settings name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tyro

from procrustean.base.own_code import named_code, use_file
from procrustean.base.yaml_files import read_yaml
from procrustean.cli.values import Quiet
from procrustean.records.run_spec import RunSpec


@dataclass(frozen=True)
class ConfigCommand(RunSpec):
    """A command that takes the settings of a run, from a file and from flags."""

    config: Path | None = None
    """YAML file with settings; flags override it."""
    allow_code: tuple[str, ...] = ()
    """Files of methods and networks of your own that --config may name: FILE.py ... Read them first: they are run."""
    quiet: Quiet = False

    def check(self) -> None:
        """Settings are judged when all of them are known: those of the file and the flags together."""

    def settle(self) -> None:
        """Likewise."""

    @classmethod
    def with_defaults(cls, settings: Mapping[str, Any]) -> Self:
        """The command with the settings of a file as its defaults."""
        return cls(**{"source": tyro.MISSING, **settings})


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
    return RunSpec.typed(read_yaml(path), origin=str(path))


def config_as_yaml(config: RunSpec) -> str:
    """All settings of a run, in a form that --config reads again."""
    import yaml

    text: str = yaml.safe_dump(config.to_json(), sort_keys=False)
    return text


def allow(files: Iterable[str], names: Iterable[str | None] = (), arguments: Sequence[str] = ()) -> None:
    """Name the files of --allow-code, and those of methods and networks that were typed, not read from a file."""
    typed = {word.removeprefix("--method=").removeprefix("--net=") for word in arguments}
    for name in (*files, *(name for name in names if name in typed)):
        use_file(str(name))


def refuse_unnamed(configs: Iterable[RunSpec]) -> None:
    """ConfigError for code that a file of settings names and the command line does not; nothing is imported."""
    for config in configs:
        for kind, name in config.code.items():
            named_code(name, "method" if kind == "method" else "network", option="--allow-code")
