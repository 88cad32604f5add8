"""What has changed between two records, in words, and no longer than it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 60
SHOWN = 3


def difference(name: str, before: Any, now: Any) -> str:
    """How a value differs from what it was; of long lists, the places where they do.

    >>> difference("counts", [24, 18], [23, 18])
    'counts: [24, 18] when it began, [23, 18] now'
    >>> difference("counts", list(range(100)), [*range(99), 7])
    'counts, place 99: 99 when it began, 7 now'
    """
    if len(str(before)) <= LONGEST and len(str(now)) <= LONGEST:
        return _told(name, before, now)
    if not isinstance(before, list) or not isinstance(now, list):
        return _told(name, _short(before), _short(now))
    texts = [] if len(before) == len(now) else [_told(f"{name}, how many", len(before), len(now))]
    places = [place for place, (a, b) in enumerate(zip(before, now, strict=False)) if a != b]
    texts += [_told(f"{name}, place {i}", _short(before[i]), _short(now[i])) for i in places[:SHOWN]]
    if len(places) > SHOWN:
        texts.append(f"and {len(places) - SHOWN} more places of {name}")
    return "; ".join(texts)


def image_counts_difference(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Of which classes there are more or fewer images than there were, and how many in all; empty if of none.

    Empty as well where there are other classes: then these are what has changed.

    >>> image_counts_difference({"RBC": 700, "WBC": 30}, {"RBC": 699, "WBC": 30})
    '729 in all, were 730: RBC 699, was 700'
    """
    if set(before) != set(now) or before == now:
        return ""
    classes = [name for name in before if before[name] != now[name]]
    texts = [f"{name} {now[name]}, was {before[name]}" for name in classes[:SHOWN]]
    if len(classes) > SHOWN:
        texts.append(f"and {len(classes) - SHOWN} more classes")
    return f"{sum(now.values())} in all, were {sum(before.values())}: {'; '.join(texts)}"


def _told(name: str, before: Any, now: Any) -> str:
    return f"{name}: {before} when it began, {now} now"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
