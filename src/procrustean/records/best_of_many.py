"""How the best of several stands to the others: ahead of them, or only by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from procrustean.base.table_formats import Statistic

#: Means that differ by less are equal: those of equal results of three and of five seeds differ in the last digit.
EQUAL = 1e-12
#: How often two methods that are equal may be told apart, each pair by itself.
LEVEL = 0.05
#: What "told apart" means, for readers of the tables.
RULE = (
    "Two means are told apart where Welch's t-test of their seeds has p < 0.05, each pair by itself: among many pairs "
    "a few are told apart by chance, and the first of many looks better than it is."
)
#: Said of what is true of some rows only: other images are easier, or harder.
SAME_IMAGES = " on the same images"

#: Means of the rows of a table by their names, for each setting in which they are rivals; '' names the only one.
Rivals = Mapping[str, Mapping[str, "Mean"]]


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, as a fraction, and its standard error; None where it is a single run."""

    value: float
    error: float | None
    freedom: float = 0.0  # degrees of freedom of the standard error

    @classmethod
    def of(cls, statistic: Statistic) -> Mean:
        error = None if statistic.sd is None else statistic.sd / math.sqrt(statistic.n)
        return cls(statistic.mean, error, statistic.n - 1)

    @classmethod
    def over(cls, means: Sequence[Mean]) -> Mean:
        """Of one method in several settings."""
        value = sum(mean.value for mean in means) / len(means)
        total = _sum_error(means)
        return cls(value, None) if total is None else cls(value, total[0] / len(means), total[1])

    @property
    def points(self) -> float:
        """In percent, rounded as in the tables, so that differences are those a reader computes from them."""
        return round(100 * self.value, 1)

    def p_value(self, other: Mean) -> float | None:
        """Of Welch's t-test; None for a single run, and where the seeds of both agree, which leaves it undefined."""
        total = _sum_error((self, other))
        if total is None or total[0] == 0:
            return None
        # SciPy takes a while to import, and few commands come here.
        from scipy.special import stdtr

        error, freedom = total
        return 2 * float(stdtr(freedom, -abs(self.value - other.value) / error))

    def told_apart(self, other: Mean) -> bool | None:
        """Whether two means differ by more than their seeds explain; None where the seeds do not say.

        That is so where one is a single run, and where the seeds of both agree: a few may do so by chance, above all on
        a small test set, and how far others would lie is not known.
        """
        if self.error is None or other.error is None:
            return None
        if abs(self.value - other.value) <= EQUAL:
            return False
        p = self.p_value(other)
        return None if p is None else p < LEVEL

    def exceeds(self, other: Mean) -> bool:
        """Whether it is the higher one, by chance or not."""
        return self.value - other.value > EQUAL


def _sum_error(means: Sequence[Mean]) -> tuple[float, float] | None:
    """Standard error and degrees of freedom (Welch and Satterthwaite) of a sum or difference of independent means."""
    errors = [(mean.error, mean.freedom) for mean in means if mean.error is not None]
    if len(errors) < len(means):
        return None
    variance = sum(error**2 for error, _ in errors)
    if variance == 0:
        return 0.0, math.inf
    return math.sqrt(variance), variance**2 / sum(error**4 / freedom for error, freedom in errors)


def leader(means: Mapping[str, Mean]) -> str:
    """The name of the best of those that were repeated, since a single run may be a lucky one; of all, if none was."""
    repeated = [name for name, mean in means.items() if mean.error is not None]
    return max(repeated or means, key=lambda name: means[name].value)


def above(best: Mean, others: Mapping[str, Mean]) -> str:
    """Which of the others, by their names, lie above the best of those that were repeated; empty where none does."""
    names = _listed(best, {name: other for name, other in others.items() if other.exceeds(best)})
    return f"Above it by a single run: {names}." if names else ""


def doubts(best: Mean, others: Mapping[str, Mean]) -> str:
    """Which of the others, by their names, the best may not be ahead of; empty where it is ahead of all."""
    equals = _listed(best, {name: other for name, other in others.items() if best.told_apart(other) is False})
    lower = {name: other for name, other in others.items() if not other.exceeds(best)}
    unknown = {name: other for name, other in lower.items() if best.told_apart(other) is None}
    sentences = []
    if equals:
        sentences.append(f"Not told apart from it by these seeds: {equals}.")
    if unknown and best.error is None:
        sentences.append("A single seed does not say whether it is really ahead of any other.")
    elif unknown:
        sentences.append(f"Too few seeds to say whether it is really ahead of: {_listed(best, unknown)}.")
    return " ".join(sentences)


def behind(best: Mean, others: Mapping[str, Mean]) -> str:
    """Which of the others, by their names, are told apart from the best; empty where none is."""
    names = _listed(best, {name: other for name, other in others.items() if best.told_apart(other)})
    return f"Behind by more than the seeds explain: {names}." if names else ""


def about_bold(rivals: Rivals, column: str) -> str:
    """What bold says in a table, and whether the best mean of its headline column is ahead of the others.

    Empty where no mean of the column is in bold.

    Args:
        rivals: the means of the column; settings are apart because other images were trained on.
        column: its heading.
    """
    bold = _in_bold(rivals)
    if not bold:
        return ""
    among = SAME_IMAGES * (len(rivals) > 1)
    sentences, unranked = [f"Bold: the best mean of its column{' among rows' * bool(among)}{among}."], []
    for setting, means in bold.items():
        if _repeated(means):
            sentences.append(_about_best(means, f"{column}, {setting}" if setting else column, among))
        else:
            unranked.append(setting)
    if unranked:
        settings = "; ".join(filter(None, unranked))
        sentences.append(f"Single runs do not rank{f': {settings}' if settings else ''}.")
    return " ".join(sentences)


def rule_of(rivals: Rivals) -> str:
    """The rule by which `about_bold` tells means apart; empty where single runs leave nothing to apply it to."""
    return RULE if any(_repeated(means) > 1 for means in _in_bold(rivals).values()) else ""


def _in_bold(rivals: Rivals) -> Rivals:
    """The settings in which one mean is better than another, as they are shown."""
    return {setting: means for setting, means in rivals.items() if len({m.points for m in means.values()}) > 1}


def _repeated(means: Mapping[str, Mean]) -> int:
    """How many of them are of several seeds."""
    return sum(mean.error is not None for mean in means.values())


def _about_best(means: Mapping[str, Mean], place: str, among: str) -> str:
    """How the best of those with several seeds stands to the others, and among which these are."""
    name = leader(means)
    best, others = means[name], {other: mean for other, mean in means.items() if other != name}
    higher, equal = above(best, others), doubts(best, others)
    which = "best of those with several seeds" if higher else "best"
    sentences = [f"{place}: {which} is {name}, {best.points:.1f}.", higher, equal]
    if not (higher or equal):
        largest = max(best.p_value(other) or 0.0 for other in others.values())
        sentences.append(f"Told apart from all others{among} ({'largest ' * (len(others) > 1)}{p_text(largest)}).")
    return " ".join(filter(None, sentences))


def _listed(best: Mean, others: Mapping[str, Mean]) -> str:
    return "; ".join(f"{name} ({_difference(best, other)})" for name, other in others.items())


def _difference(best: Mean, other: Mean) -> str:
    """How far a mean lies from the best, in points, and with which p where the seeds do not tell the two apart."""
    points = f"{other.points - best.points:+.1f}"
    p = best.p_value(other)
    return points if p is None or p < LEVEL else f"{points}, {p_text(p)}"


def p_text(p: float) -> str:
    """A p-value, no finer than it is of use.

    >>> p_text(0.3), p_text(0.0512), p_text(0.00001)
    ('p=0.30', 'p=0.051', 'p<0.001')
    """
    return "p<0.001" if p < 0.001 else f"p={p:.3f}" if p < 0.1 else f"p={p:.2f}"
