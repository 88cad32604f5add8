"""What the commands have in common whose flags are the settings of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import tyro

from procrustean.records.run_spec import RunSpec


@dataclass(frozen=True)
class ConfigCommand(RunSpec):
    """A command that takes the settings of a run, from a file and from flags."""

    def check(self) -> None:
        """Settings are judged when all of them are known: those of the file and the flags together."""

    def settle(self) -> None:
        """Likewise."""

    @classmethod
    def with_defaults(cls, settings: Mapping[str, Any]) -> Self:
        """The command with the settings of a file as its defaults."""
        return cls(**{"source": tyro.MISSING, **settings})
