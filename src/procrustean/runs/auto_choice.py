"""Which of the methods that `--method auto` has compared is taken, and what that choice is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.data.describe import some_names
from procrustean.records.run_record import DataRecord
from procrustean.runs.advice.method_advice import Choice
from procrustean.runs.tuning.choice import standard_error, voting_counts, worth_text


@dataclass(frozen=True)
class Candidate:
    """A method that was tried, with what the held-out images say about it; None if the time did not suffice."""

    choice: Choice
    path: Path
    held_out: float | None  # balanced accuracy of the last epoch
    failed: str = ""  # why it came to no end, if not for want of time


def best_of(tried: Sequence[Candidate], folder: Path, minutes: float) -> Candidate:
    """The highest accuracy; of equal ones the first, which is the more promising."""
    finished = [candidate for candidate in tried if candidate.held_out is not None]
    failed = [f"{candidate.choice.name}: {candidate.failed}" for candidate in tried if candidate.failed]
    if not finished and failed:
        raise RunError(
            f"no method was trained to the end; {'; '.join(failed)}. A lower --lr may help, with another --run-dir"
        )
    if not finished:
        raise RunError(
            f"no method was trained to the end within {minutes:g} min; what there is is kept in {folder}. Give the "
            "same command with more --minutes to go on, or fewer --epochs and another --run-dir"
        )
    return max(finished, key=lambda candidate: candidate.held_out or 0.0)


@dataclass(frozen=True)
class Worth:
    """How far the held-out images tell the best candidate from the others."""

    images: int
    error: float  # standard error of the best one's balanced accuracy
    ties: tuple[str, ...]  # others with the same accuracy
    close: tuple[str, ...]  # others that are worse by no more than one standard error
    without_a_vote: tuple[str, ...]  # classes that have no held-out image

    def text(self) -> str:
        how = "it was taken because it stands first in the order of promise"
        text = worth_text(self.error, self.ties, how, self.close)
        if self.without_a_vote:
            text += f" Without a say, because they have no held-out image: {some_names(self.without_a_vote)}."
        return text


def worth_of(tried: Sequence[Candidate], best: Candidate, data: DataRecord) -> Worth:
    """What choosing the best of these is worth.

    Args:
        tried: all candidates.
        best: the one that was taken.
        data: of its run.
    """
    assert best.held_out is not None
    counts = voting_counts(data)
    error = standard_error(best.held_out, counts)
    ties, close = [], []
    for other in tried:
        if other is best or other.held_out is None:
            continue
        if math.isclose(other.held_out, best.held_out, abs_tol=1e-9):
            ties.append(other.choice.name)
        elif best.held_out - other.held_out <= error:
            close.append(other.choice.name)
    without = tuple(name for name, count in zip(data.classes, data.held_out_counts, strict=True) if not count)
    return Worth(sum(counts), error, tuple(ties), tuple(close), without)
