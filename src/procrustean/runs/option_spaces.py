"""What the options of a method are chosen from, and which of them are tried: a grid, or what Optuna suggests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import installing
from procrustean.base.own_code import plain_name
from procrustean.methods.make import checked_options
from procrustean.runs.choosing import Score, value_text


@dataclass(frozen=True)
class Range:
    """All numbers between two; on a logarithmic scale where both are above 0 and a factor of 10 apart."""

    low: float
    high: float

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high >= 10 * self.low


Values = tuple[Any, ...] | Range
Space = Mapping[str, Values]

#: Alpha of MFW: the paper's grid. Gamma of CDT: its authors' ranges. The others: values around the published ones.
DEFAULTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "mfw": {"alpha": (0.1, 0.2, 0.5, 1.0, 5.0)},
    "cdt": {"gamma": (0.0, 0.1, 0.2, 0.3, 0.4)},
    "focal": {"gamma": (0.5, 1.0, 2.0)},
    "class_balanced": {"beta": (0.9, 0.99, 0.999, 0.9999)},
    "ldam": {"max_margin": (0.1, 0.3, 0.5, 0.7)},
    "seql": {"gamma": (0.5, 0.9, 0.95)},
    "mixup": {"alpha": (0.2, 0.5, 1.0, 2.0)},
    "manifold_mixup": {"alpha": (0.5, 1.0, 2.0)},
    "remix": {"kappa": (2.0, 3.0, 5.0)},
    "mamix": {"power": (0.0, 0.25, 0.5)},
    "logit_adjustment": {"tau": (0.5, 0.75, 1.0, 1.25, 1.5)},
    "vs": {"gamma": (0.05, 0.1, 0.2, 0.3), "tau": (0.75, 1.0, 1.2)},
}
#: Their option is chosen on the held-out images after training, so one training is enough for all values.
AFTER_TRAINING = {"tau_norm": "tau"}


def default_space(method: str, source: str) -> Space:
    """What a method's options are chosen from if nobody says otherwise; empty where one training tells."""
    if method in AFTER_TRAINING:
        return {}
    if method == "cdt" and source in ("cifar100", "tiny-imagenet"):
        return {"gamma": (0.0, 0.05, 0.1, 0.15, 0.2)}
    if method == "cdt" and source == "inaturalist18":
        return {"gamma": (0.0, 0.025, 0.05, 0.075, 0.1)}
    if method not in DEFAULTS:
        known = ", ".join([*DEFAULTS, *AFTER_TRAINING])
        raise ConfigError(
            f"there is no default grid for {plain_name(method)!r}; give one with --over OPTION=VALUE,... ({known})"
        )
    return DEFAULTS[method]


def read_space(method: str, texts: Sequence[str]) -> Space:
    """Options and what to try, as they come from the command line: alpha=0.1,1,5 or alpha=0.1..5.

    >>> read_space("mfw", ["alpha=0.1,5", "beta=0.01..5"])
    {'alpha': (0.1, 5.0), 'beta': Range(low=0.01, high=5.0)}
    >>> read_space("deconfound", ["heads=2..4"])
    {'heads': (2, 3, 4)}
    """
    space: dict[str, Values] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise ConfigError(f"{text!r} received; write OPTION=VALUE,VALUE,... or OPTION=LOW..HIGH")
        if name in space:
            raise ConfigError(f"{text!r} received, but {name} is given already; list all its values in one place")
        low, dots, high = values.partition("..")
        if dots:
            between = _range(text, low, high)
            first, last = (checked_options(method, {name: end})[name] for end in (low, high))
            space[name] = tuple(range(first, last + 1)) if isinstance(first, int) else between
        else:
            space[name] = tuple(dict.fromkeys(checked_options(method, {name: v})[name] for v in values.split(",")))
    return space


def space_texts(space: Space) -> list[str]:
    """Options and what to try, as one writes them on the command line.

    >>> space_texts({"alpha": (0.1, 5.0), "beta": Range(low=0.01, high=5.0)})
    ['alpha=0.1,5', 'beta=0.01..5']
    """
    return [
        f"{name}={value_text(v.low)}..{value_text(v.high)}"
        if isinstance(v, Range)
        else f"{name}={','.join(map(value_text, v))}"
        for name, v in space.items()
    ]


def _range(text: str, low: str, high: str) -> Range:
    try:
        made = Range(float(low), float(high))
    except ValueError:
        raise ConfigError(f"{text!r} received; both ends of a range are numbers") from None
    if not (math.isfinite(made.low) and math.isfinite(made.high) and made.low < made.high):
        raise ConfigError(f"{text!r} received; the first number has to be the smaller one")
    return made


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination of the values."""
    for name, values in space.items():
        if isinstance(values, Range):
            raise ConfigError(f"{name} is given as a range, of which a grid has no end; add --trials N, or list values")
    lists = [values for values in space.values() if not isinstance(values, Range)]
    return [dict(zip(space, chosen, strict=True)) for chosen in product(*lists)]


def samples(space: Space) -> list[dict[str, Any]]:
    """A few candidates in which every value and every end of a range occurs, to see that all are possible."""
    ends = {name: (v.low, v.high) if isinstance(v, Range) else v for name, v in space.items()}
    first = {name: values[0] for name, values in ends.items()}
    return [first, *({**first, name: value} for name, values in ends.items() for value in values[1:])]


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
