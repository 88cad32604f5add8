"""Choose among settings by a few held-out images, and say how much that choice is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from procrustean.base.errors import ConfigError, RunError
from procrustean.engine.prepared import Prepared
from procrustean.records.run_record import DataRecord, RunRecord

#: Share of the evaluations, the last ones, whose mean decides between equals.
TAIL = 0.1


@dataclass(frozen=True)
class Score:
    """A candidate on the held-out images.

    Args:
        options: what was tried.
        last: balanced accuracy in the last epoch, mean over the seeds; what decides.
        tail: the same over the last tenth of the evaluations; decides between equals.
        seeds: how many runs.
        failed: why it could not be trained, if so; then it has no accuracy, and cannot be chosen.
    """

    options: dict[str, Any]
    last: float
    tail: float
    seeds: int
    failed: str = ""

    @property
    def name(self) -> str:
        return options_text(self.options)


class Scored(Protocol):
    """What can be chosen among: settings of a method, or methods."""

    @property
    def name(self) -> str: ...
    @property
    def last(self) -> float: ...
    @property
    def tail(self) -> float: ...
    @property
    def failed(self) -> str: ...


S = TypeVar("S", bound=Scored)


def options_text(options: Mapping[str, Any]) -> str:
    """Options as one writes them.

    >>> options_text({"alpha": 0.5, "draw": "batch"})
    'alpha=0.5, draw=batch'
    """
    return ", ".join(f"{name}={value_text(value)}" for name, value in options.items()) or "as it is"


def value_text(value: Any) -> str:
    """The value of an option as one writes it.

    >>> value_text(0.50), value_text("batch")
    ('0.5', 'batch')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def score_of(options: Mapping[str, Any], records: Sequence[RunRecord]) -> Score:
    """From the records of a candidate's runs."""
    return Score(dict(options), *held_out_accuracies(records), len(records))


def held_out_accuracies(records: Sequence[RunRecord]) -> tuple[float, float]:
    """Balanced accuracy in the last epoch and over the last tenth of the evaluations, means over the runs."""
    curves = [record.curves.held_out_balanced_accuracy or [] for record in records]
    tails = [fmean(curve[-max(1, round(TAIL * len(curve))) :]) for curve in curves]
    return fmean(curve[-1] for curve in curves), fmean(tails)


@dataclass(frozen=True)
class Choice(Generic[S]):
    """The best candidate, and those that are as good as far as the held-out images can tell."""

    best: S
    ties: tuple[S, ...]  # others with the same accuracy in the last epoch
    close: tuple[S, ...]  # others that are worse by no more than one standard error
    images: int
    error: float  # standard error of the best one's balanced accuracy
    taken: str  # the rule by which one of equals was taken, as a clause

    def text(self) -> str:
        """What was chosen, and what that is worth."""
        best = self.best
        return f"Chosen: {best.name}, {100 * best.last:.1f} % on {self.images} held-out images. {self.worth}"

    @property
    def worth(self) -> str:
        """How far the held-out images tell the best candidate from the others."""
        ties, close = ("; ".join(score.name for score in scores) for scores in (self.ties, self.close))
        lines = [f"Tied with it in the last epoch: {ties}; {self.taken}."] if ties else []
        lines.append(f"One standard error of an accuracy on these images is up to {100 * self.error:.1f} points.")
        if close:
            lines.append(f"Within it, too: {close}.")
        if ties or close:
            lines.append(
                "These images cannot tell them apart, only more held-out images can; more training seeds average out "
                "the chance in training, not that of these images."
            )
        return " ".join(lines)


def voting_counts(data: DataRecord) -> list[int]:
    """Held-out images of each class that has some."""
    return [count for count in data.held_out_counts if count]


def standard_error(balanced_accuracy: float, counts: Sequence[int]) -> float:
    """Of a mean of recalls, each measured on so many images and near that mean; a small class carries most of it.

    Where some classes are nearly all right and others all wrong, it is smaller than that. No recall is taken to be
    nearer to 0 or 1 than half an image of its class: all right on a few images is not all right for sure.

    >>> round(standard_error(0.75, [3] * 10), 3), round(standard_error(0.75, [100] * 9 + [3]), 3)
    (0.079, 0.028)
    """
    recalls = [min(max(balanced_accuracy, 0.5 / count), 1 - 0.5 / count) if count > 1 else 0.5 for count in counts]
    return math.sqrt(sum(p * (1 - p) / count for p, count in zip(recalls, counts, strict=True))) / len(counts)


def choose(scores: Sequence[S], counts: Sequence[int]) -> Choice[S]:
    """The highest balanced accuracy in the last epoch; equals by their last evaluations, then the first.

    Candidates that failed are passed over; RunError if all did.

    Args:
        scores: the candidates.
        counts: held-out images of each class.
    """
    failed = [f"{score.name}: {score.failed}" for score in scores if score.failed]
    scores = [score for score in scores if not score.failed]
    if not scores:
        raise RunError(f"no candidate could be trained to the end; {'; '.join(failed)}")
    top = max(score.last for score in scores)
    ties = [score for score in scores if _equal(score.last, top)]
    tail = max(score.tail for score in ties)
    best, *equals = [score for score in ties if _equal(score.tail, tail)]
    taken = f"it was taken for its mean over the last tenth of the evaluations, {100 * tail:.1f} %"
    if equals:
        taken = "it was taken because it was tried first of those with the same mean over the last tenth, too"
    error = standard_error(best.last, counts)
    others = [score for score in ties if score is not best]
    close = [score for score in scores if score not in ties and top - score.last <= error]
    return Choice(best, tuple(others), tuple(close), sum(counts), error, taken)


def check_held_out(prepared: Prepared) -> None:
    """ConfigError without images to choose on, or with those of one class: guessing it always would be right."""
    held_out, config = prepared.data.held_out, prepared.config
    if held_out is None:
        raise ConfigError(
            f"{config.source}: hold_out = {config.hold_out or 0:g} received, and there is no validation split; a "
            "choice needs held-out images: give --hold-out 0.15, or 3 per class as in the paper"
        )
    if np.count_nonzero(held_out.counts) < 2:
        name = held_out.classes[int(held_out.counts.argmax())]
        raise ConfigError(
            f"{config.source}: the {len(held_out)} held-out images are all of the class {name}, and to choose on them "
            "images of at least two classes are needed; give a share such as --hold-out 0.15"
        )


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, abs_tol=1e-9)
