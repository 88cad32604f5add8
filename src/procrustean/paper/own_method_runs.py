"""Runs of a user's own methods whose code is not at hand: of a file that was edited since, or that no table names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from procrustean.base.code_files import FileCode, edited_file, file_code, is_usable


class LeftOutMethods:
    """Collects what is left out, so that it is said once per method and not for every run."""

    def __init__(self) -> None:
        self._runs: dict[FileCode, set[str]] = {}  # by method with its hash: a run and the copy of its result are one

    def leaves_out(self, settings: Mapping[str, Any]) -> bool:
        """Whether a run with these settings is one of them; it is counted then."""
        name = settings.get("method")
        own = file_code(name) if isinstance(name, str) else None
        if own is None or is_usable(str(name)):
            return False
        computed = {key: value for key, value in settings.items() if key != "run_dir"}
        self._runs.setdefault(own, set()).add(json.dumps(computed, sort_keys=True, default=str))
        return True

    def has_earlier(self, method: str) -> bool:
        """Whether there are runs of a method with another text of its file."""
        own = file_code(method)
        return own is not None and any(_same_place(own, earlier) for earlier in self._runs)

    def lines(self) -> list[str]:
        """What was left out, and why."""
        found: dict[tuple[str, str], int] = {}
        for own, runs in self._runs.items():
            place = edited_file(own)
            why = (
                f"whose code is not imported unless --allow-code {own.path} names it, nor in a dry run"
                if place is None
                else f"but {place} has been edited since: as it is now it is another method, with runs of its own; put "
                "back the text that it had to see these"
            )
            found[own.plain, why] = found.get((own.plain, why), 0) + len(runs)
        return [
            f"left out: {number} run{'s were' if number > 1 else ' was'} trained by {name}, {why}"
            for (name, why), number in found.items()
        ]


def _same_place(one: FileCode, other: FileCode) -> bool:
    return (Path(one.path).name, one.function) == (Path(other.path).name, other.function)
