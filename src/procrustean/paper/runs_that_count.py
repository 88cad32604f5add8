"""Finished runs among others: which are repeats, which of two counts, and which are left out for their code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from procrustean.base.own_code import FileCode, edited_file, file_code, is_usable
from procrustean.data.sources import is_named
from procrustean.records.run_record import Result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.image_loading import source_settings

OTHER_IMAGES = "was trained on other images than"


@dataclass(frozen=True)
class Stored:
    """A finished run and its settings in the form by which runs are told apart."""

    config: RunSpec
    result: Result

    @property
    def source_hash(self) -> str:
        """Of the images that the source held."""
        return self.result.data.source_hash

    @cached_property
    def written(self) -> float:
        """When the run was finished, in seconds; where the record does not say it, when the file was written."""
        told = self.result.record.finished_at
        return path_of(self).stat().st_mtime if told is None else told.timestamp()


def whatever_the_seed(config: RunSpec) -> str:
    """What the runs of one setting have in common, of settings in the form by which runs are told apart."""
    return replace(config, seed=0).hash


def path_of(stored: Stored) -> Path:
    """The file of a result."""
    assert stored.result.path is not None
    return stored.result.path


def other_images(one: Stored, other: Stored) -> bool:
    """Whether two runs were trained on different images of their source."""
    return one.source_hash != other.source_hash


def counts_before(one: Stored, other: Stored) -> bool:
    """Which of two results of the same run counts: of different images the newer, else the one named after the run."""
    if other_images(one, other):
        return one.written > other.written
    return _is_named_after_the_run(one) > _is_named_after_the_run(other)


def _is_named_after_the_run(stored: Stored) -> bool:
    return path_of(stored).stem.startswith(stored.config.slug)


def on_newest_images(stored: Stored, among: Iterable[Stored]) -> Stored:
    """The newest of the runs whose images were loaded as those of this one, which is one of them.

    Images of the user's own may be changed between two runs. Those of known data sets are what they are, and which of
    their classes are taken is a matter of the settings.
    """
    if is_named(stored.config.source):
        return stored
    return max((other for other in among if _loaded_as(other) == _loaded_as(stored)), key=lambda other: other.written)


def _loaded_as(stored: Stored) -> dict[str, object]:
    return {**source_settings(stored.config), "data_dir": None, "classes": stored.config.classes}


def older_text(stored: Stored, newest: Stored) -> str:
    return f"left out: {path_of(stored)} {OTHER_IMAGES} {path_of(newest)}, which is newer"


class LeftOutMethods:
    """Collects what is left out, so that it is said once per method and not for every run."""

    def __init__(self) -> None:
        self._runs: dict[FileCode, set[str]] = {}  # by method with its hash: a run and the copy of its result are one

    def leaves_out(self, config: RunSpec) -> bool:
        """Whether a run with these settings is one of them; it is counted then."""
        own = file_code(config.method)
        if own is None or is_usable(config.method):
            return False
        self._runs.setdefault(own, set()).add(config.hash)
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
