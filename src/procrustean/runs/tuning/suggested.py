"""Which settings are tried: a grid, or those that Optuna suggests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import installing
from procrustean.runs.tuning.choice import Score
from procrustean.runs.tuning.spaces import Range, Space, grid, possible

Options = dict[str, Any]
#: Trains candidates and gives their scores, None for those that are not finished.
Judge = Callable[[Sequence[Options]], list[Score | None]]


class OutOfTime(Exception):
    """A candidate is not finished; everything is saved."""


def search_grid(space: Space, judge: Judge) -> list[Score]:
    """Every combination of the values."""
    return _all_of(judge(grid(space)))


def search_by_optuna(space: Space, judge: Judge, *, trials: int, at_once: int, seed: int) -> list[Score]:
    """So many trials, `at_once` at a time, each batch suggested by those before it (TPE).

    The suggestions depend on the seed and the scores alone, so an interrupted search that is begun again suggests the
    same candidates, whose runs are there already, and goes on from there. No data base is needed.
    """
    try:
        import optuna
    except ImportError:
        raise ConfigError(f"--trials needs Optuna; install it {installing('tune')}") from None
    if trials < 1:
        raise ConfigError(f"trials = {trials} received; at least one candidate has to be tried")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    known: dict[str, Score] = {}
    scores: list[Score] = []
    while len(scores) < trials:
        asked = [study.ask() for _ in range(min(at_once, trials - len(scores)))]
        candidates = [_suggested(trial, space) for trial in asked]
        new = [c for i, c in enumerate(candidates) if str(c) not in known and c not in candidates[:i]]
        known |= {str(c): score for c, score in zip(new, _all_of(judge(new)), strict=True)}
        for trial, candidate in zip(asked, candidates, strict=True):
            study.tell(trial, known[str(candidate)].last)
            scores.append(known[str(candidate)])
    return list({score.name: score for score in scores}.values())


def repeated_text(space: Space, tried: int, trials: int | None) -> str:
    """How many of the trials were different candidates, where some were the same.

    >>> repeated_text({"alpha": (0.1, 1.0)}, 2, 5)
    ' Different candidates among the 5 trials: 2; there are no others.'
    """
    if trials is None or tried == trials:
        return ""
    why = "there are no others" if tried == possible(space, trials) else "some were suggested again"
    return f" Different candidates among the {trials} trials: {tried}; {why}."


def _suggested(trial: Any, space: Space) -> Options:
    options: Options = {}
    for name, values in space.items():
        if isinstance(values, Range):
            # Three digits: nobody can tell alpha = 0.374 from 0.37454. They must not lead out of the range.
            rounded = float(f"{trial.suggest_float(name, values.low, values.high, log=values.log):.3g}")
            options[name] = min(max(rounded, values.low), values.high)
        else:
            options[name] = trial.suggest_categorical(name, list(values))
    return options


def _all_of(scores: Sequence[Score | None]) -> list[Score]:
    found = [score for score in scores if score is not None]
    if len(found) < len(scores):
        raise OutOfTime
    return found
