"""Which runs `--method auto` has chosen on held-out images, as the record in the folder of the comparison tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from procrustean.plain_json import read_object
from procrustean.report.result_file import Result
from procrustean.report.results import Group, Statistic, summarise

#: What a comparison keeps beside its runs.
COMPARISON = "auto.json"


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
    record = _record(places.pop())
    worth = record.get("worth")
    return f" {record.get('chosen')} was chosen. {worth}" if isinstance(worth, str) else ""


def _key(group: Group) -> str:
    return "\n".join(str(result.path) for result in group.results)


def _compared(result: Result) -> bool:
    return result.path is not None and (result.path.parent.parent / COMPARISON).is_file()


def _was_chosen(result: Result) -> bool:
    assert result.path is not None
    run = result.path.parent
    return bool(_record(run.parent).get("chosen") == run.name)


def _record(folder: Path) -> dict[str, Any]:
    return read_object(folder / COMPARISON, "compare again with another --run-dir")
