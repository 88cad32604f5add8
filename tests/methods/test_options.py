"""Methods made from names and options: conversion, defaults, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from procrustean.balance import MFW, Classify, Problem
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.methods.make import checked_options, factory, option_defaults
from procrustean.methods.mfw import Weakening

STEP = Problem((500, 500, 5, 5), "step", "cifar10", ("input", "group1", "group2"))
TAIL = Problem((5000, 1077, 232, 50), "long_tailed", "cifar100", ("input", "group1", "group2"))


def weakening(problem: Problem, **options: Any) -> tuple[MFW, str]:
    objective = make_method("mfw", problem, options).stages[0].objective
    assert isinstance(objective, Classify)
    assert isinstance(objective.mixer, Weakening)
    return objective.mixer.mfw, objective.mixer.at[0]


class TestConversion:
    @pytest.mark.parametrize(
        ("name", "key", "given", "wanted"),
        [
            ("focal", "gamma", "2", 2.0),
            ("focal", "gamma", "1e-1", 0.1),
            ("focal", "gamma", 2, 2.0),
            ("focal", "gamma", 0.5, 0.5),
            ("erm", "drw", "true", True),
            ("erm", "drw", "False", False),
            ("erm", "drw", True, True),
            ("mfw", "alpha", "none", None),
            ("mfw", "alpha", None, None),
            ("mfw", "alpha", "0.2", 0.2),
            ("mfw", "layer", "group1", "group1"),
            ("mfw", "layer", "none", None),
            ("mislas", "bn_mode", "none", None),
            ("mfw", "std", "arithmetic", "arithmetic"),
            ("mfw", "draw", "batch", "batch"),
        ],
    )
    def test_values(self, name: str, key: str, given: Any, wanted: Any) -> None:
        found = checked_options(name, {key: given})[key]
        assert found == wanted
        assert type(found) is type(wanted)

    @pytest.mark.parametrize(
        ("name", "key", "given", "message"),
        [
            ("focal", "gamma", "much", "option gamma = 'much' of method 'focal' is not a number; default 1.0"),
            ("focal", "gamma", True, "option gamma = True of method 'focal' is not a number"),
            ("focal", "gamma", None, "option gamma = None of method 'focal' is not a number"),
            ("focal", "gamma", [1], r"option gamma = \[1\] of method 'focal' is not a number"),
            ("erm", "drw", "maybe", "option drw = 'maybe' of method 'erm' is not true or false"),
            ("mfw", "alpha", "big", "option alpha = 'big' of method 'mfw' is not a number or none"),
            ("mfw", "draw", "epoch", "option draw = 'epoch' of method 'mfw' is not one of 'sample', 'batch'"),
            ("mfw", "std", 1, "is not one of 'geometric', 'arithmetic', 'log'"),
            ("mfw", "layer", 2, "option layer = 2 of method 'mfw' is not a text or none"),
        ],
    )
    def test_wrong_types(self, name: str, key: str, given: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            checked_options(name, {key: given})

    def test_unknown_option_names_the_nearest(self) -> None:
        with pytest.raises(ConfigError, match=r"method 'mfw' has no option 'alhpa'\. Did you mean 'alpha'"):
            make_method("mfw", STEP, {"alhpa": 1})
        with pytest.raises(ConfigError, match=r"method 'erm' has no option 'gamma'.*Options: drw=False"):
            make_method("erm", STEP, {"gamma": 1})

    @pytest.mark.parametrize("name", ["balanced_softmax", "logit_adjustment", "vs"])
    def test_class_sizes_are_not_counted_twice(self, name: str) -> None:
        with pytest.raises(ConfigError, match=f"method '{name}' takes no drw: .* would count them twice"):
            make_method(name, STEP, {"drw": True})

    def test_what_is_taken_out_at_prediction_is_not_weighted(self) -> None:
        with pytest.raises(ConfigError, match=r"method 'deconfound' takes no drw: it trains without a correction"):
            make_method("deconfound", STEP, {"drw": True})

    def test_a_method_without_options(self) -> None:
        assert option_defaults("balanced_softmax") == {}
        with pytest.raises(ConfigError, match=r"has no option 'tau'.*Options: none"):
            make_method("balanced_softmax", STEP, {"tau": 1})

    def test_unknown_method_names_the_nearest(self) -> None:
        with pytest.raises(ConfigError, match=r"there is no method 'focla'\. Did you mean 'focal'"):
            factory("focla")
        with pytest.raises(ConfigError, match="there is no method 'base'"):
            factory("base")

    def test_a_comparison_of_methods_is_no_method(self) -> None:
        with pytest.raises(ConfigError, match=r"method 'auto' received, which compares methods.*one method is needed"):
            factory("auto")

    def test_defaults_in_the_order_of_the_signature(self) -> None:
        assert option_defaults("ldam") == {"max_margin": None, "scale": 30.0, "drw": False}
        assert list(option_defaults("mfw"))[:2] == ["alpha", "beta"]

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("focal", {"gamma": -1}),
            ("class_balanced", {"beta": 1.0}),
            ("class_balanced", {"form": "focal", "gamma": -1}),
            ("class_balanced", {"gamma": 1}),
            ("ldam", {"scale": 0}),
            ("mfw", {"alpha": -1}),
            ("mfw", {"alpha": "nan"}),
            ("mfw", {"beta": 0}),
            ("mfw", {"major_strength": 0.7}),
            ("deconfound", {"alpha": -1}),
            ("deconfound", {"gamma": "nan"}),
            ("deconfound", {"scale": 0}),
            ("deconfound", {"momentum": 1.5}),
        ],
    )
    def test_values_out_of_range(self, name: str, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="received"):
            make_method(name, STEP, options)


class TestLabels:
    @pytest.mark.parametrize(
        ("name", "options", "label"),
        [
            ("erm", {}, "ERM"),
            ("erm", {"drw": True}, "ERM-DRW"),
            ("focal", {}, "Focal"),
            ("class_balanced", {}, "CB"),
            ("class_balanced", {"form": "focal"}, "CB-focal"),
            ("class_balanced", {"form": "sigmoid", "drw": True}, "CB-sigmoid-DRW"),
            ("focal", {"form": "sigmoid"}, "Focal-sigmoid"),
            ("cdt", {}, "CDT"),
            ("seql", {"drw": True}, "SEQL-DRW"),
            ("mixup", {}, "mixup"),
            ("manifold_mixup", {"drw": True}, "manifold mixup-DRW"),
            ("remix", {"drw": True}, "Remix-DRW"),
            ("mamix", {"drw": True}, "MAMix-DRW"),
            ("ldam", {}, "LDAM"),
            ("ldam", {"drw": True}, "LDAM-DRW"),
            ("mfw", {}, "MFW"),
            ("mfw", {"drw": True}, "MFW-DRW"),
        ],
    )
    def test_the_paper_names(self, name: str, options: dict[str, Any], label: str) -> None:
        assert make_method(name, STEP, options).label == label


class TestMFW:
    def test_defaults_of_the_paper(self) -> None:
        mfw, layer = weakening(STEP)
        assert (mfw.alpha, mfw.beta, mfw.std, mfw.draw, layer) == (5.0, 0.01, "geometric", "sample", "group2")
        mfw, _ = weakening(TAIL)
        assert (mfw.alpha, mfw.beta) == (0.2, 2.0)  # CIFAR-100 has an alpha of its own
        mfw, _ = weakening(Problem(TAIL.counts, "long_tailed", "cifar10"))
        assert mfw.alpha == 1.0

    def test_the_kind_is_that_of_the_problem(self) -> None:
        mfw, _ = weakening(Problem((500, 500, 5, 5), "long_tailed"))
        assert (mfw.kind, mfw.alpha) == ("long_tailed", 1.0)

    def test_options_are_handed_on(self) -> None:
        mfw, layer = weakening(STEP, alpha="0.3", beta="0.5", std="arithmetic", draw="batch", layer="group1")
        assert (mfw.alpha, mfw.beta, mfw.std, mfw.draw, layer) == (0.3, 0.5, "arithmetic", "batch", "group1")

    def test_the_layer_follows_the_network(self) -> None:
        assert weakening(Problem((50, 5), "step", second_group="block2"))[1] == "block2"

    def test_fixed_strength_of_the_toy_experiment(self) -> None:
        assert weakening(STEP, major_strength=0.5)[0].strength.tolist() == [0.5, 0.5, 0.0, 0.0]
        assert weakening(TAIL, major_strength=0.25)[0].strength.tolist() == [0.25, 0.25, 0.0, 0.0]
        # exp of the mean logarithm of these is rounded to more than 3.
        on_the_mean = Problem((9, 3, 1), "long_tailed")
        assert weakening(on_the_mean, major_strength=0.5)[0].strength.tolist() == [0.5, 0.5, 0.0]

    def test_epochs_of_the_paper(self) -> None:
        assert make_method("mfw", STEP).paper == {"epochs": 300}
        assert make_method("mfw", Problem((50, 5), "step", "digits")).paper == {}
        assert make_method("erm", STEP).paper == {}
