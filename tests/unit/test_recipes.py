"""Recipes: learning-rate tables, numbers of the paper, refusals."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from procrustean.errors import ConfigError
from procrustean.publications import ldam_schedule
from procrustean.recipes import Recipe, lr_table, recipe_for

CIFAR = recipe_for("cifar10")


class TestLdamSchedule:
    """Cao et al. 2019, epochs counted from 1: warm-up to 5, then 0.1, a hundredth after 160 and again after 180."""

    @pytest.mark.parametrize(
        ("epoch", "lr"),
        [
            (1, 0.02),
            (2, 0.04),
            (4, 0.08),
            (5, 0.1),
            (6, 0.1),
            (160, 0.1),
            (161, 1e-3),
            (180, 1e-3),
            (181, 1e-5),
            (200, 1e-5),
        ],
    )
    def test_rates(self, epoch: int, lr: float) -> None:
        recipe = CIFAR.changed(ldam_schedule())
        assert recipe.epochs == 200
        assert lr_table(recipe, 200)[epoch - 1] == pytest.approx(lr, rel=1e-12)

    def test_other_lengths_keep_the_shares(self) -> None:
        table = lr_table(CIFAR.changed(ldam_schedule()), 10)
        assert table[5:] == pytest.approx([0.1, 0.1, 0.1, 1e-3, 1e-5])


class TestCosine:
    def test_the_schedule_of_the_paper(self) -> None:
        table = lr_table(CIFAR, 300)
        assert table[:6] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1, 0.1])
        for epoch in (5, 50, 152, 240, 299):
            wanted = 0.05 * (1 + math.cos(math.pi * (epoch - 5) / 295))
            assert table[epoch] == pytest.approx(wanted, rel=1e-12)
        assert table[240] == pytest.approx(0.0099, abs=5e-5)
        assert all(a >= b for a, b in itertools.pairwise(table[4:]))
        assert 0 < table[-1] < 1e-5

    def test_without_warm_up(self) -> None:
        table = lr_table(CIFAR.changed({"warmup_epochs": 0}), 4)
        assert table == pytest.approx([0.1, 0.1 * (2 + math.sqrt(2)) / 4, 0.05, 0.1 * (2 - math.sqrt(2)) / 4])


class TestShortRuns:
    @pytest.mark.parametrize("schedule", ["cosine", "steps", "constant"])
    @pytest.mark.parametrize("epochs", [1, 2, 3, 5, 6])
    def test_every_epoch_has_a_positive_rate_and_one_the_full_one(self, schedule: str, epochs: int) -> None:
        table = lr_table(CIFAR.changed({"schedule": schedule}), epochs)
        assert len(table) == epochs
        assert all(rate > 0 for rate in table)
        assert max(table) == pytest.approx(0.1)

    def test_constant(self) -> None:
        table = lr_table(CIFAR.changed({"schedule": "constant", "warmup_epochs": 2}), 5)
        assert table == pytest.approx([0.05, 0.1, 0.1, 0.1, 0.1])

    def test_milestones_that_are_not_exact_in_binary(self) -> None:
        recipe = CIFAR.changed({"schedule": "steps", "milestones": (0.7,), "decay": 0.5, "warmup_epochs": 0})
        table = lr_table(recipe, 90)  # 0.7 * 90 is 62.99... in floating point
        assert table == [0.1] * 63 + [0.05] * 27


class TestNumbersOfThePaper:
    @pytest.mark.parametrize("source", ["cifar10", "cifar100"])
    def test_cifar(self, source: str) -> None:
        recipe = recipe_for(source)
        assert (recipe.net, recipe.batch_size, recipe.lr, recipe.momentum) == ("resnet32", 128, 0.1, 0.9)
        assert (recipe.weight_decay, recipe.nesterov, recipe.warmup_epochs) == (2e-4, False, 5)
        assert (recipe.schedule, recipe.epochs, recipe.padding, recipe.flip) == ("cosine", 200, 4, True)
        assert recipe.mean == (0.4914, 0.4822, 0.4465)
        assert recipe.std == (0.2023, 0.1994, 0.2010)

    @pytest.mark.parametrize("source", ["cifar10", "cifar100", "digits", "my photographs"])
    def test_every_recipe_is_sound_and_plain_data(self, source: str) -> None:
        recipe = recipe_for(source)
        assert recipe.checked() is recipe
        assert json.loads(json.dumps(recipe.to_json()))["net"] == recipe.net

    def test_digits_are_not_mirrored(self) -> None:
        assert not recipe_for("digits").flip


class TestChanges:
    def test_a_change_makes_another_recipe(self) -> None:
        changed = CIFAR.changed({"epochs": 3, "lr": 0.5})
        assert (changed.epochs, changed.lr, changed.batch_size) == (3, 0.5, 128)
        assert CIFAR.epochs == 200
        assert CIFAR.changed({}) == CIFAR

    def test_unknown_name(self) -> None:
        with pytest.raises(ConfigError, match="a recipe has no 'learning'"):
            CIFAR.changed({"learning": 0.1})
        with pytest.raises(ConfigError, match="Did you mean 'batch_size'"):
            CIFAR.changed({"batchsize": 1})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("epochs", 0),
            ("batch_size", 0),
            ("batch_size", -1),
            ("lr", 0.0),
            ("lr", -0.1),
            ("lr", math.nan),
            ("lr", math.inf),
            ("momentum", 1.0),
            ("momentum", -0.1),
            ("weight_decay", -1e-4),
            ("weight_decay", math.inf),
            ("warmup_epochs", -1),
            ("padding", -1),
            ("schedule", "cosin"),
        ],
    )
    def test_values_that_cannot_be(self, name: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=f"{name} = .* received; it has to be"):
            CIFAR.changed({name: value})

    def test_edge_values_that_can_be(self) -> None:
        changes = {"epochs": 1, "batch_size": 1, "momentum": 0.0, "weight_decay": 0.0, "padding": 0}
        assert isinstance(CIFAR.changed(changes), Recipe)
