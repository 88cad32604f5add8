"""How the best of several stands to the others: ahead of them, or only by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from procrustean.report.results import Statistic

#: Standard errors that two means have to be apart to be told apart.
APART = 2.0


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, as a fraction, and its standard error; None where it is a single run."""

    value: float
    error: float | None

    @classmethod
    def of(cls, statistic: Statistic) -> Mean:
        return cls(statistic.mean, None if statistic.sd is None else statistic.sd / math.sqrt(statistic.n))

    @classmethod
    def over(cls, means: Sequence[Mean]) -> Mean:
        """Of one method in several settings."""
        errors = [mean.error for mean in means if mean.error is not None]
        error = math.hypot(*errors) / len(means) if len(errors) == len(means) else None
        return cls(sum(mean.value for mean in means) / len(means), error)

    @property
    def points(self) -> float:
        """In percent, rounded as in the tables, so that differences are those a reader computes from them."""
        return round(100 * self.value, 1)

    def told_apart(self, other: Mean) -> bool | None:
        """Whether two means differ by more than their seeds explain; None where one is a single run."""
        if self.error is None or other.error is None:
            return None
        return abs(self.value - other.value) > APART * math.hypot(self.error, other.error)


def doubts(best: Mean, others: Mapping[str, Mean]) -> str:
    """Which of the others, by their names, the best may not be ahead of; empty where it is ahead of all."""
    equals = _named(best, others, apart=False)
    unknown = _named(best, others, apart=None)
    sentences = []
    if equals:
        sentences.append(f"Not told apart from it by these seeds: {equals}.")
    if unknown and best.error is None:
        sentences.append("A single seed does not say whether it is really ahead of any other.")
    elif unknown:
        sentences.append(f"Too few seeds to say whether it is really ahead of: {unknown}.")
    return " ".join(sentences)


def behind(best: Mean, others: Mapping[str, Mean]) -> str:
    """Which of the others, by their names, are certainly worse; empty where none is."""
    names = _named(best, others, apart=True)
    return f"Behind by more than the seeds explain: {names}." if names else ""


def _named(best: Mean, others: Mapping[str, Mean], *, apart: bool | None) -> str:
    return "; ".join(
        f"{name} ({other.points - best.points:+.1f})"
        for name, other in others.items()
        if best.told_apart(other) is apart
    )
