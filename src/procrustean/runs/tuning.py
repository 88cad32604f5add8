"""Tune options on held-out training images, then train on all training images, as the MFW paper does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from procrustean.base.errors import ConfigError
from procrustean.base.own_code import use_file
from procrustean.base.progress import Reporter
from procrustean.engine.device import refuse_several_ranks
from procrustean.records.run_spec import RunSpec
from procrustean.runs.choosing import Choice, Score, choose
from procrustean.runs.cost import TimeBox
from procrustean.runs.option_spaces import (
    Options,
    OutOfTime,
    Space,
    samples,
    search_by_optuna,
    search_grid,
)
from procrustean.runs.tuning_candidates import (
    check_space,
)
from procrustean.runs.tuning_runs import TuningRuns
from procrustean.runs.tuning_study import (
    UNFINISHED,
    Budget,
    Search,
    Study,
    is_decided,
    refuse_another_search,
    write_study,
)


@dataclass(frozen=True)
class Tuned:
    """What tuning found; `choice` is None while candidates are unfinished."""

    scores: tuple[Score, ...]
    choice: Choice[Score] | None
    chosen: Options
    retrained: tuple[Path, ...]  # run directories on all training images
    text: str
    failed: tuple[str, ...] = ()  # why trainings on all images could not be ended


def tune(
    base: RunSpec,
    space: Space,
    output: Path,
    *,
    final_source: str | None = None,
    budget: Budget | None = None,
    reporter: Reporter | None = None,
    clock: Callable[[], float] = time.monotonic,
    began: float | None = None,
) -> Tuned:
    """Choose options by balanced accuracy on held-out images, then train on all images.

    Args:
        base: all settings but those that are tuned; `hold_out` says how many images per class decide, 0 that those
            of the source's own validation split do.
        space: options and what they are chosen from; empty for methods that choose after training.
        output: where runs are kept; the same call goes on where it was stopped, another search is refused there.
        final_source: data set that is trained on with the chosen options; by default that of `base`.
        budget: how much is tried.
        reporter: where progress goes.
        clock: seconds of a clock that never goes back.
        began: time of the clock from which the minutes of the budget count; now, if nothing is said.
    """
    refuse_several_ranks()
    budget, reporter = budget or Budget(), reporter or Reporter()
    _check(budget)
    box = TimeBox(budget.minutes, clock, began)
    for name in base.code.values():
        use_file(name)
    check_space(base, space)
    final_source = final_source or base.source
    search = budget.search(base, space, final_source)
    refuse_another_search(output, search)
    tuning = TuningRuns(search, output, budget, reporter, box)
    try:
        if budget.trials is None:
            scores = search_grid(space, tuning.judge)
        else:
            tuning.check(samples(space))
            scores = search_by_optuna(space, tuning.judge, trials=budget.trials, at_once=search.at_once, seed=base.seed)
    except OutOfTime:
        return Tuned((), None, {}, (), UNFINISHED)
    choice = choose(scores, tuning.counts, tuning.is_default)
    after = tuning.after_training(choice.best.options)
    chosen = {**choice.best.options, **after}
    failed = "".join(f" Not trained to the end: {score.name} ({score.failed})." for score in scores if score.failed)

    def tuned(retrained: Sequence[Path]) -> Tuned:
        text = choice.text() + tuning.remarks(after, retrained) + failed
        finals = (*retrained, *tuning.further(chosen))
        return Tuned(tuple(scores), choice, chosen, finals, text, tuple(tuning.failed))

    if not is_decided(output):
        # From here on the folder holds final runs: by what choice has to be known even after a kill.
        _write(output, search, tuned([]), tuning.counts)
    found = tuned(tuning.retrain(chosen))
    _write(output, search, found, tuning.counts)
    return found


def _check(budget: Budget) -> None:
    if budget.repeats < 1 or budget.final_seeds < 0:
        raise ConfigError(
            f"repeats = {budget.repeats}, final_seeds = {budget.final_seeds} received; at least 1 and 0 are needed"
        )
    if budget.minutes is not None and not budget.minutes >= 0:
        raise ConfigError(f"minutes = {budget.minutes:g} received; it has to be 0 or more")


def _write(output: Path, search: Search, tuned: Tuned, counts: Sequence[int]) -> None:
    assert tuned.choice is not None
    study = Study.of(
        search,
        held_out_images=sum(counts),
        scores=list(tuned.scores),
        chosen=tuned.chosen,
        ties=[dict(score.options) for score in tuned.choice.ties],
        within_one_standard_error=[dict(score.options) for score in tuned.choice.close],
        standard_error=tuned.choice.error,
        retrained=[str(path) for path in tuned.retrained],
        text=tuned.text,
    )
    write_study(output, study)
