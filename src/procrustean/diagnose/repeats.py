"""Runs that differ in their seeds alone, to be judged together: one of them may lie on either side of a bound."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.results import Group, Result, group_results
from ..report.settings import comparable, setting_of
from .curves import common_epochs, curves_of


def repeats_of(results: Sequence[Result]) -> list[Group]:
    """The groups of several runs among them, as far as these have measured epochs in common.

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
        if len(group.results) > 1 and common_epochs([curves_of(result.record) for result in group.results])
    ]
