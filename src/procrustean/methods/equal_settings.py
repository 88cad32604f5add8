"""When two settings of MFW are as good as one, because the classes get the same strengths."""

from __future__ import annotations

from procrustean.balance.count_facts import Spread
from procrustean.balance.mfw import strength_of

#: Which standard deviation Eq. 7 means, and its beta.
StrengthSetting = tuple[Spread, float]

#: Strengths that differ by less train the same networks as far as anyone can measure: tables share the run.
SAME_RUN = 1e-4
#: Strengths that differ by less are one point of a curve along beta. A curve asks less of them than a table: of
#: CIFAR-10 at ratio 100 every beta from 0.01 to 5 is then one run under the geometric standard deviation.
SAME_POINT = 5e-3


def furthest_apart(counts: tuple[int, ...], one: StrengthSetting, other: StrengthSetting) -> float:
    """The largest difference that any class has between its strengths under two settings.

    >>> furthest_apart((5000, 5000, 50, 50), ("geometric", 2), ("arithmetic", 0.01)) < SAME_RUN
    True
    """
    pairs = zip(_strengths(counts, one), _strengths(counts, other), strict=True)
    return max(abs(a - b) for a, b in pairs)


def _strengths(counts: tuple[int, ...], setting: StrengthSetting) -> list[float]:
    std, beta = setting
    return strength_of(counts, beta=beta, std=std)
