"""What `--method auto` has chosen on held-out images, as the record in the folder of the comparison tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from procrustean.base.errors import RunError
from procrustean.base.json_files import read_object
from procrustean.base.statistics import (
    Statistic,
)
from procrustean.records.groups import (
    Group,
    summarise,
)
from procrustean.records.run_record import Result

#: What a comparison keeps beside its runs.
COMPARISON = "auto.json"


def read_comparison(folder: Path) -> dict[str, Any]:
    """The record in the folder of a comparison."""
    return read_object(folder / COMPARISON, "compare again with another --run-dir")


def chosen_run(path: Path) -> Path:
    """The run that a folder stands for: itself, or the best of those that `--method auto` has compared in it."""
    record = path / COMPARISON
    if not record.is_file():
        return path
    chosen = read_comparison(path).get("chosen")
    if chosen is None:
        raise RunError(f"{path}: the methods are not compared to the end; give the same command again to go on")
    plain = isinstance(chosen, str) and Path(chosen).name == chosen and chosen not in ("", "..")
    if not plain or not (path / str(chosen)).is_dir():
        raise RunError(f"{record} is damaged: it chose {chosen!r:.80}, which is no run of this folder")
    return path / str(chosen)


def compared_in(path: Path) -> list[dict[str, Any]]:
    """What a comparison found about each method; nothing for a folder that is none."""
    record = path / COMPARISON
    compared = (read_comparison(path).get("compared") or []) if record.is_file() else []
    if not isinstance(compared, list) or not all(isinstance(found, dict) and "name" in found for found in compared):
        raise RunError(f"{record} is damaged: compared = {compared!r:.80}; compare again with another --run-dir")
    return compared


def worth_in(path: Path) -> str:
    """What the choice of a comparison is worth, in words; nothing for a folder that is none, or an older one."""
    record = path / COMPARISON
    return str(read_comparison(path).get("worth") or "") if record.is_file() else ""


def choices(groups: Iterable[Group]) -> dict[str, int]:
    """How many runs of each group, by its key, were the choice of a comparison.

    None where other runs are among them: beside what was not compared, a choice says nothing.
    """
    groups = list(groups)
    if not all(_compared(result) for group in groups for result in group.results):
        return dict.fromkeys(map(_key, groups), 0)
    return {_key(group): sum(map(_was_chosen, group.results)) for group in groups}


def times_chosen(group: Group, among: Mapping[str, int]) -> int:
    """How often a group was the choice, of what `choices` found."""
    return among[_key(group)]


def held_out_accuracy(group: Group) -> Statistic | None:
    """Balanced accuracy on the held-out images after the last epoch, by which comparisons choose."""
    return summarise(last_held_out(result.record) for result in group.results)


def last_held_out(record: Mapping[str, Any]) -> float | None:
    """The same of one run; None where no images were held out."""
    curve = record["curves"].get("held_out_balanced_accuracy")
    return float(curve[-1]) if curve else None


def worth_of_choice(groups: Iterable[Group]) -> str:
    """What the choice is worth, as the record of the comparison says; nothing where several were made, each its own."""
    places = {result.path.parent.parent for group in groups for result in group.results if result.path is not None}
    if len(places) != 1:
        return ""
    record = read_comparison(places.pop())
    worth = record.get("worth")
    return f" {record.get('chosen')} was chosen. {worth}" if isinstance(worth, str) else ""


def _key(group: Group) -> str:
    return "\n".join(str(result.path) for result in group.results)


def _compared(result: Result) -> bool:
    return result.path is not None and (result.path.parent.parent / COMPARISON).is_file()


def _was_chosen(result: Result) -> bool:
    assert result.path is not None
    run = result.path.parent
    return bool(read_comparison(run.parent).get("chosen") == run.name)
