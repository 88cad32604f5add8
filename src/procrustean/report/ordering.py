"""The order of groups that differ in their options: names of folders, which end in a hash, have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from procrustean.records.groups import Group
from procrustean.records.identity import comparable, data_setting, setting_of


def by_options(groups: Sequence[Group]) -> list[Group]:
    """The groups as they come, but those of one label on the same data by the values of their options."""
    ordered, kin = list(groups), [comparable([group.label, data_setting(group.results[0])]) for group in groups]
    for name in dict.fromkeys(kin):
        places = [place for place, other in enumerate(kin) if other == name]
        for place, group in zip(places, sorted((groups[place] for place in places), key=_options), strict=True):
            ordered[place] = group
    return ordered


def _options(group: Group) -> list[tuple[Any, ...]]:
    """Numbers by their size, what is left to the method before them, and names after them."""
    ranked: list[tuple[Any, ...]] = []
    for name, value in sorted(setting_of(group.results[0])["options"].items()):
        number = isinstance(value, int | float)
        ranked.append((name, 0 if value is None else 1 if number else 2, value if number else str(value)))
    return ranked
