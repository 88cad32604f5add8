"""Recipes: learning-rate tables, numbers of the paper, refusals."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from procrustean.base import ConfigError
from procrustean.data import RECIPES, lr_table, recipe_for, step_rates
from procrustean.data.recipes import PAPER, Recipe, chosen_recipe, ldam_schedule, recipe_label

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

    @pytest.mark.parametrize(
        ("source", "net", "numbers"),
        [  # epochs, batch, rate, weight decay, padding, crop
            ("tiny-imagenet", "resnet18-s1", (200, 128, 0.1, 2e-4, 8, None)),
            ("tiered-imagenet", "resnet12", (180, 512, 0.2, 5e-4, 8, None)),
            ("imagenet-lt", "resnet10", (200, 256, 0.1, 5e-4, 0, 224)),
            ("inaturalist18", "resnet50", (90, 128, 0.05, 1e-4, 0, 224)),
        ],
    )
    def test_larger_data_sets(self, source: str, net: str, numbers: tuple[Any, ...]) -> None:
        r = recipe_for(source)
        assert r.net == net
        assert (r.epochs, r.batch_size, r.lr, r.weight_decay, r.padding, r.crop) == numbers
        assert (r.momentum, r.nesterov, r.warmup_epochs) == (0.9, False, 0)
        assert r.schedule == ("steps" if source == "inaturalist18" else "cosine")
        assert (r.augment, r.flip, r.evaluation_crop) == ("pad_crop_flip", True, r.crop)

    @pytest.mark.parametrize(("epochs", "drops"), [(90, (60, 80)), (180, (120, 160))])
    def test_the_steps_of_inaturalist(self, epochs: int, drops: tuple[int, int]) -> None:
        name = "inaturalist18" if epochs == 90 else "inaturalist18-180"
        recipe = RECIPES[name][0]
        first, second = drops
        wanted = [0.05] * first + [0.005] * (second - first) + [0.0005] * (epochs - second)
        assert lr_table(recipe, recipe.epochs) == pytest.approx(wanted)
        assert lr_table(recipe_for("inaturalist18"), epochs) == pytest.approx(wanted)  # --epochs 180

    @pytest.mark.parametrize("name", RECIPES)
    def test_every_recipe_is_sound_and_plain_data(self, name: str) -> None:
        recipe, about = RECIPES[name]
        assert recipe.checked() is recipe
        assert recipe.name == name
        assert json.loads(json.dumps(recipe.to_json()))["net"] == recipe.net
        assert about.startswith(("the paper's", "this library's"))
        assert recipe.net in recipe.text()

    def test_of_a_hash_the_line_has_the_beginning(self) -> None:
        assert CIFAR.changed({"net": "my.py:net@" + 64 * "0"}).text().startswith("my.py:net@000000000000, ")

    @pytest.mark.parametrize(
        ("name", "changes", "text"),
        [
            ("digits", {}, "random crops after padding by 1"),
            ("cifar", {}, "random crops after padding by 4, random flips"),
            ("cifar", {"flip": False, "padding": 0}, "images not augmented"),
            ("cifar", {"augment": "none"}, "images not augmented"),
            ("cifar", {"augment": "flip", "crop": 24}, "random flips"),
            ("cifar-strong", {}, "random crops after padding by 4, random flips, AutoAugment, Cutout"),
            ("imagenet-lt", {"augment": "pad_crop_flip"}, "random crops of 224 pixels, random flips"),
            (
                "imagenet-lt",
                {"augment": "random_resized_crop", "flip": False, "colour_jitter": 0.4},
                "random resized crops of 224 pixels, colours changed by up to 40 %",
            ),
        ],
    )
    def test_its_line_says_what_is_done_to_the_images(self, name: str, changes: dict[str, Any], text: str) -> None:
        recipe = RECIPES[name][0].changed({"colour_jitter": 0.0, **changes})
        assert recipe.text().endswith(f"weight decay {recipe.weight_decay:g}, {text}")

    def test_variants_differ_from_their_base_in_what_their_name_says(self) -> None:
        def differences(one: str, other: str) -> dict[str, Any]:
            base, variant = (RECIPES[name][0].to_json() for name in (one, other))
            return {k: v for k, v in variant.items() if v != base[k] and k != "name"}

        assert differences("cifar", "cifar-strong") == {"augment": "strong"}
        assert differences("cifar", "cifar-densenet121") == {"net": "densenet121-s1"}
        assert differences("imagenet-lt", "imagenet-lt-resnext50") == {"net": "resnext50"}
        assert differences("inaturalist18", "inaturalist18-180") == {"epochs": 180}

    def test_digits_are_not_mirrored(self) -> None:
        assert not recipe_for("digits").flip


class TestChoice:
    def test_of_a_data_set(self) -> None:
        for source, name in PAPER.items():
            assert chosen_recipe("auto", source) == chosen_recipe("paper", source) == RECIPES[name][0]
            assert recipe_label("auto", recipe_for(source), source) == "paper"
        for source, name in (("digits", "digits"), ("", "images"), ("my photographs", "images")):
            assert chosen_recipe("auto", source).name == name
            assert recipe_label("auto", recipe_for(source), source) == name
            with pytest.raises(ConfigError, match=f"Leave it out to train by '{name}', this library's for"):
                chosen_recipe("paper", source)

    def test_by_name_on_any_data(self) -> None:
        recipe = chosen_recipe("cifar-strong", "cifar10")
        assert (recipe.augment, recipe_label("cifar-strong", recipe, "cifar10")) == ("strong", "cifar-strong")
        assert chosen_recipe("tiny-imagenet", "") == recipe_for("tiny-imagenet")
        assert recipe_label("tiny-imagenet", recipe_for("tiny-imagenet"), "") == "tiny-imagenet"

    def test_own_changes_that_of_the_data_set(self) -> None:
        assert chosen_recipe("own", "imagenet-lt") == recipe_for("imagenet-lt")
        assert recipe_label("own", recipe_for("imagenet-lt"), "imagenet-lt") == "own"

    def test_unknown(self) -> None:
        with pytest.raises(ConfigError, match=r"there is no recipe 'cifra'\. Did you mean 'cifar'"):
            chosen_recipe("cifra", "cifar10")


class TestAugment:
    def test_another_way_brings_what_it_implies(self) -> None:
        assert (CIFAR.padding, CIFAR.flip) == (4, True)
        found = {name: CIFAR.changed({"augment": name}) for name in ("flip", "none", "strong", "random_resized_crop")}
        assert {name: (r.padding, r.flip) for name, r in found.items()} == {
            "flip": (0, True), "none": (0, False), "strong": (4, True), "random_resized_crop": (0, True),
        }  # fmt: skip

    @pytest.mark.parametrize(
        "changes",
        [
            {"augment": "none", "flip": True},
            {"augment": "flip", "padding": 4},
            {"augment": "random_resized_crop", "padding": 1},
        ],
    )
    def test_contradictions(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=f"it has to be .* with augment '{changes['augment']}'"):
            CIFAR.changed(changes)


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
            ("crop", 0),
            ("evaluation_crop", -1),
            ("colour_jitter", 1.5),
        ],
    )
    def test_values_that_cannot_be(self, name: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=f"{name} = .* received; it has to be"):
            CIFAR.changed({name: value})

    def test_edge_values_that_can_be(self) -> None:
        changes = {"epochs": 1, "batch_size": 1, "momentum": 0.0, "weight_decay": 0.0, "padding": 0}
        assert isinstance(CIFAR.changed(changes), Recipe)


class TestOneCycle:
    RECIPE = CIFAR.changed({"schedule": "one_cycle", "lr": 0.5})

    def test_the_rate_rises_for_a_fifth_of_the_steps_and_falls_to_nothing(self) -> None:
        rates = [rate for epoch in range(10) for rate in step_rates(self.RECIPE, 10, epoch, 10)]
        peak = rates.index(max(rates))
        assert rates[0] == pytest.approx(0.5 / 25)
        assert (peak, max(rates)) == (20, pytest.approx(0.5, rel=1e-3))
        assert rates[-1] == pytest.approx(0.5 / 250_000)
        assert rates[:peak] == sorted(rates[:peak])
        assert rates[peak:] == sorted(rates[peak:], reverse=True)

    def test_an_epoch_is_told_with_the_rate_of_its_middle(self) -> None:
        by_step = [step_rates(self.RECIPE, 10, epoch, 101)[50] for epoch in range(10)]
        assert lr_table(self.RECIPE, 10) == pytest.approx(by_step, rel=0.03)

    def test_other_schedules_have_one_rate_in_an_epoch(self) -> None:
        assert step_rates(CIFAR, 200, 100, 3) == [lr_table(CIFAR, 200)[100]] * 3
