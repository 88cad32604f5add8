from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from procrustean.balance import Problem
from procrustean.balance.count_facts import Kind
from procrustean.base import ConfigError
from procrustean.methods import METHODS, make_method
from procrustean.methods.make import checked_options, option_defaults
from procrustean.runs.choosing import Score
from procrustean.runs.option_spaces import (
    DEFAULTS,
    OutOfTime,
    Range,
    default_space,
    grid,
    read_space,
    samples,
    search_by_optuna,
    search_grid,
)


def test_the_paper_s_grid_of_alpha() -> None:
    assert default_space("mfw", "cifar10") == {"alpha": (0.1, 0.2, 0.5, 1.0, 5.0)}


@pytest.mark.parametrize("method", DEFAULTS)
def test_default_grids_hold_options_of_the_method(method: str) -> None:
    assert method in METHODS
    for options in grid(default_space(method, "cifar10")):
        checked_options(method, options)


@pytest.mark.parametrize("source", ["cifar10", "cifar100", "tiny-imagenet", "inaturalist18", "photos"])
@pytest.mark.parametrize("kind", ["long_tailed", "step"])
@pytest.mark.parametrize("method", DEFAULTS)
def test_default_grids_hold_the_default(method: str, kind: Kind, source: str) -> None:
    defaults = {**option_defaults(method), **make_method(method, Problem((50, 5), kind, source)).resolved}
    space = default_space(method, source)
    assert {name: defaults[name] for name in space} in grid(space)


def test_the_range_of_gamma_depends_on_the_data() -> None:
    largest = [max(default_space("cdt", source)["gamma"]) for source in ("cifar10", "cifar100", "inaturalist18")]
    assert largest == [0.4, 0.2, 0.1]


def test_what_is_chosen_after_training_needs_one_training() -> None:
    assert grid(default_space("tau_norm", "cifar10")) == [{}]


def test_methods_without_a_grid_ask_for_one() -> None:
    with pytest.raises(ConfigError, match=r"no default grid for 'bbn'; give one with --over"):
        default_space("bbn", "cifar10")


def test_grids_from_the_command_line() -> None:
    space = read_space("mfw", ["alpha=0.5,2,2.0", "draw=sample,batch"])
    assert grid(space) == [
        {"alpha": 0.5, "draw": "sample"},
        {"alpha": 0.5, "draw": "batch"},
        {"alpha": 2.0, "draw": "sample"},
        {"alpha": 2.0, "draw": "batch"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha", "write OPTION=VALUE"),
        ("alpha=", "write OPTION=VALUE"),
        ("alhpa=1", "no option 'alhpa'. Did you mean 'alpha'"),
        ("alpha=much", "alpha = 'much' of method 'mfw' is not a number"),
        ("alpha=5..1", "the first number has to be the smaller one"),
        ("alpha=a..b", "both ends of a range are numbers"),
        ("draw=0..1", "draw = '0' of method 'mfw' is not one of"),
    ],
)
def test_mistakes_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_space("mfw", [text])


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"'alpha=2' received, but alpha is given already; list all its values"):
        read_space("mfw", ["alpha=1", "alpha=2"])


def test_samples_hold_every_value_and_both_ends() -> None:
    space = read_space("mfw", ["alpha=0.5..2", "draw=sample,batch"])
    assert samples(space) == [
        {"alpha": 0.5, "draw": "sample"},
        {"alpha": 2.0, "draw": "sample"},
        {"alpha": 0.5, "draw": "batch"},
    ]
    assert samples({}) == [{}]


def test_a_range_is_no_grid() -> None:
    with pytest.raises(ConfigError, match=r"alpha is given as a range.*add --trials N"):
        grid(read_space("mfw", ["alpha=0.1..5"]))


def test_scales() -> None:
    assert Range(0.1, 5.0).log
    assert not Range(0.0, 5.0).log
    assert not Range(1.0, 5.0).log


class Judge:
    """Gives each candidate a score without training; may run out of time."""

    def __init__(self, most: int = 1000) -> None:
        self.tried: list[dict[str, Any]] = []
        self.most = most

    def __call__(self, candidates: Sequence[dict[str, Any]]) -> list[Score | None]:
        scores: list[Score | None] = []
        for options in candidates:
            self.tried.append(options)
            done = len(self.tried) <= self.most
            scores.append(Score(options, 1 - abs(options["alpha"] - 1.0) / 10, 0.0, 1) if done else None)
        return scores


def test_a_grid_is_tried_at_once() -> None:
    judge = Judge()
    scores = search_grid({"alpha": (0.5, 1.0)}, judge)
    assert [score.options for score in scores] == judge.tried == [{"alpha": 0.5}, {"alpha": 1.0}]
    with pytest.raises(OutOfTime):
        search_grid({"alpha": (0.5, 1.0)}, Judge(most=1))


ALPHA = {"alpha": Range(0.1, 5.0)}


class TestOptuna:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("optuna")

    def test_so_many_trials_towards_the_better(self) -> None:
        judge = Judge()
        scores = search_by_optuna(ALPHA, judge, trials=25, at_once=2, seed=0)
        # Two suggestions may agree to three digits; they are one candidate then.
        assert 22 <= len(judge.tried) == len(scores) <= 25
        late = [abs(options["alpha"] - 1) for options in judge.tried[15:]]
        assert sum(late) / len(late) < 0.6

    def test_begun_again_it_tries_the_same(self) -> None:
        whole, stopped, again = Judge(), Judge(most=7), Judge()
        search_by_optuna(ALPHA, whole, trials=14, at_once=3, seed=4)
        with pytest.raises(OutOfTime):
            search_by_optuna(ALPHA, stopped, trials=14, at_once=3, seed=4)
        search_by_optuna(ALPHA, again, trials=14, at_once=3, seed=4)
        assert again.tried == whole.tried
        assert stopped.tried == whole.tried[: len(stopped.tried)]

    def test_lists_may_be_repeated_but_are_trained_once(self) -> None:
        judge = Judge()
        scores = search_by_optuna({"alpha": (0.5, 1.0)}, judge, trials=8, at_once=4, seed=0)
        assert len(scores) == len(judge.tried) == 2

    def test_rounding_does_not_lead_out_of_a_range(self) -> None:
        judge = Judge()
        search_by_optuna({"alpha": Range(0.99, 0.9998)}, judge, trials=12, at_once=1, seed=0)
        assert max(options["alpha"] for options in judge.tried) == 0.9998

    def test_no_trials_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="trials = 0"):
            search_by_optuna(ALPHA, Judge(), trials=0, at_once=1, seed=0)


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"in the clone .*: pip install -c constraints.txt -e '.\[tune\]'"):
        search_by_optuna(ALPHA, Judge(), trials=3, at_once=1, seed=0)


def test_a_range_of_whole_numbers_is_all_of_them() -> None:
    assert read_space("deconfound", ["heads=2..4"]) == {"heads": (2, 3, 4)}
    with pytest.raises(ConfigError, match=r"heads = '2\.5' of method 'deconfound' is not a whole number"):
        read_space("deconfound", ["heads=2.5..4"])
