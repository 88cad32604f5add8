"""Which runs `--method auto` has chosen on held-out images, as the record in the folder of the comparison tells."""

from __future__ import annotations

from procrustean.plain_json import read_object
from procrustean.report.result_file import Result
from procrustean.report.results import Group, Statistic, summarise

#: What a comparison keeps beside its runs.
COMPARISON = "auto.json"


def times_chosen(group: Group) -> int:
    """How many runs of a group were the choice of a comparison."""
    return sum(map(_was_chosen, group.results))


def held_out_accuracy(group: Group) -> Statistic | None:
    """Balanced accuracy on the held-out images after the last epoch, by which comparisons choose."""
    curves = [result.record["curves"].get("held_out_balanced_accuracy") for result in group.results]
    return summarise(curve[-1] if curve else None for curve in curves)


def _was_chosen(result: Result) -> bool:
    if result.path is None:
        return False
    run = result.path.parent
    record = run.parent / COMPARISON
    return record.is_file() and read_object(record, "compare again with another --run-dir").get("chosen") == run.name
