from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from procrustean.base import ConfigError
from procrustean.data import load_source
from procrustean.paper import canonical, trained_as_today
from procrustean.records import RunSpec
from procrustean.runs.preparing import imbalanced
from procrustean.runs.training_sizes import training_counts, training_images

TAIL = {"source": "cifar10", "imbalance": "long_tailed", "rho": 100}
STEP = {"source": "cifar10", "imbalance": "step", "rho": 100}


def run(*parts: dict[str, Any], **more: Any) -> RunSpec:
    settings: dict[str, Any] = {}
    for part in (*parts, more):
        settings |= part
    return RunSpec.from_json(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 300},
        {"net": "resnet32", "batch_size": 128, "lr": 0.1, "weight_decay": 2e-4},
        {"options": {"alpha": 1}},
        {"options": {"beta": 2}},
        {"options": {"beta": 0.01}},  # the strengths are 0.5 and 0 whichever it is
        {"options": {"layer": "group2", "std": "geometric", "draw": "sample", "reduction": "weighted_mean"}},
        {"options": {"drw": False}},
        {"hold_out_from": "source"},  # of nothing
    ],
    ids=str,
)
def test_what_the_defaults_choose_anyway_is_left_out(settings: dict[str, Any]) -> None:
    assert canonical(run(TAIL, method="mfw", **settings)) == canonical(run(TAIL, method="mfw"))


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 200},
        {"options": {"alpha": 5}},
        {"options": {"beta": 5}},
        {"options": {"std": "arithmetic"}},
        {"options": {"layer": "group1"}},
        {"options": {"draw": "batch"}},
        {"drw": True},
        {"hold_out": 3},
        {"data_seed": 1},
        {"seed": 1},
        {"recipe": "own", "method": "erm"},
    ],
    ids=str,
)
def test_what_makes_a_difference_stays(settings: dict[str, Any]) -> None:
    assert canonical(run({**TAIL, "method": "mfw", **settings})).hash != canonical(run(TAIL, method="mfw")).hash


@pytest.mark.parametrize("value", [[1], {"of": 1}, [[1]]])
def test_options_that_cannot_be_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"option alpha = .* of method 'mfw' is not a number"):
        canonical(run(TAIL, options={"alpha": value}))


def test_the_default_of_alpha_depends_on_the_data() -> None:
    assert canonical(run(STEP, method="mfw", options={"alpha": 5})).options == {}
    assert canonical(run(STEP, method="mfw", options={"alpha": 1})).options == {"alpha": 1.0}
    tail = {**TAIL, "source": "cifar100"}
    assert canonical(run(tail, method="mfw", options={"alpha": 0.2})).options == {}


def test_with_step_counts_both_standard_deviations_are_one_run() -> None:
    assert canonical(run(STEP, method="mfw", options={"std": "arithmetic"})).options == {}
    softer = canonical(run(STEP, method="mfw", options={"std": "arithmetic", "beta": 1}))
    assert softer.options == {"std": "arithmetic", "beta": 1.0}


def test_places_stay() -> None:
    from pathlib import Path

    config = replace(run(TAIL, method="erm", epochs=200), run_dir=Path("a"), data_dir=Path("b"))
    assert (canonical(config).run_dir, canonical(config).data_dir) == (Path("a"), Path("b"))
    assert canonical(config).epochs is None


@pytest.mark.parametrize(
    ("settings", "total", "smallest"),
    [
        (TAIL, 12406, 50),
        (STEP, 25250, 50),
        ({**TAIL, "hold_out": 3}, 12376, 47),
        ({**TAIL, "hold_out": 500, "hold_out_from": "source"}, 11165, 45),
        ({**TAIL, "source": "cifar100"}, 10847, 5),
        ({**TAIL, "source": "cifar100", "hold_out": 5}, 10367, 1),  # a class of five keeps them
        ({"source": "cifar10"}, 50000, 5000),
    ],
    ids=str,
)
def test_sizes_without_the_images(settings: dict[str, Any], total: int, smallest: int) -> None:
    counts = training_counts(run(settings))
    assert counts is not None
    assert (sum(counts), min(counts), training_images(run(settings))) == (total, smallest, total)


@pytest.mark.parametrize("imbalance", ["long_tailed", "step"])
@pytest.mark.parametrize("hold_out_from", ["training", "source"])
@pytest.mark.parametrize("hold_out", [0, 0.15, 0.4, 3, 5])
def test_sizes_are_those_of_the_images(hold_out: float, hold_out_from: str, imbalance: str) -> None:
    config = run(source="digits", imbalance=imbalance, rho=20, hold_out=hold_out, hold_out_from=hold_out_from)
    _, data = imbalanced(config, load_source("digits"))
    assert training_counts(config) == tuple(data.counts.tolist())


def test_sizes_of_sets_that_are_imbalanced_by_themselves() -> None:
    assert training_counts(RunSpec("inaturalist18")) is None
    assert training_images(RunSpec("inaturalist18")) == 437_513


class TestRecords:
    """A record counts only if its settings still stand for what it was trained with."""

    config = run(TAIL, method="mfw")

    def matches(self, recipe: dict[str, Any], **options: Any) -> bool:
        from procrustean.methods.make import option_defaults
        from procrustean.runs.preparing import recipe_of

        return trained_as_today(
            {**option_defaults("mfw"), **options}, recipe_of(self.config).changed(recipe), self.config
        )

    #: What is measured on the images.
    measured: ClassVar = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2023, 0.1994, 0.2010)}

    def test_as_it_is(self) -> None:
        assert self.matches(self.measured)

    def test_another_recipe(self) -> None:
        assert not self.matches({**self.measured, "epochs": 200})

    def test_another_default(self) -> None:
        assert not self.matches(self.measured, draw="batch")

    def test_options_that_came_later(self) -> None:
        from procrustean.methods.make import option_defaults
        from procrustean.runs.preparing import recipe_of

        options = {name: value for name, value in option_defaults("mfw").items() if name != "keep_mixing"}
        assert trained_as_today(options, recipe_of(self.config).changed(self.measured), self.config)
