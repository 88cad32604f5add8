"""Runs that differ in their seeds alone, to be judged together: one of them may lie on either side of a bound."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.records.class_curves import Curves, common_epochs, curves_of
from procrustean.records.groups import Group, Result, group_results
from procrustean.records.identity import comparable, setting_of
from procrustean.report.diagnose.findings import ENOUGH


def repeats_of(results: Sequence[Result]) -> list[Group]:
    """The groups of several runs among them that can be judged together.

    Args:
        results: finished runs with what was measured of them; of those with the same settings and seeds the first
            counts.
    """
    once: dict[tuple[str, object], Result] = {}
    for result in results:
        once.setdefault((comparable(setting_of(result)), result.repeat), result)
    groups = group_results(once.values())
    return [
        group
        for group in groups
        if len(group.results) > 1 and judged_together([curves_of(result) for result in group.results])
    ]


def judged_together(runs: Sequence[Curves]) -> bool:
    """Whether the mean of several runs tells as much as they do.

    It has only the epochs that all of them have measured. Where these are few, and not all that there are, a verdict on
    the mean would say that too little was measured of runs that were measured well.
    """
    common = common_epochs(runs)
    return len(common) >= ENOUGH or all(curves.at == common for curves in runs)
