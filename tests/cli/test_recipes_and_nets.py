"""Recipes and networks on the command line: lists, choices, what is printed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from procrustean.data import RECIPES
from procrustean.nets import NETS
from procrustean.records import RunSpec, load_result

from .conftest import Call


def recipe_in(out: str) -> dict[str, Any]:
    """The recipe that --dry-run writes below the settings, as comments."""
    lines = out[out.index("# The recipe") :].splitlines()[1:]
    return dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))


class TestLists:
    def test_recipes(self, call: Call) -> None:
        out = call("list", "recipes").out
        assert all(f"{name} " in out for name in RECIPES)
        shown = yaml.safe_load(call("list", "recipes", "inaturalist18").out)
        assert (shown["net"], shown["batch_size"], shown["crop"]) == ("resnet50", 128, 224)
        assert shown["milestones"] == pytest.approx([2 / 3, 8 / 9])
        note = "# padding is that of 32 x 32 images; of others it is an eighth of their longer side"
        assert note in call("list", "recipes", "images").out.splitlines()
        answer = call("list", "recipes", "inat")
        assert answer.code == 2
        assert "there is no recipe 'inat'" in answer.err

    def test_nets(self, call: Call) -> None:
        out = call("list", "nets").out
        assert all(f" {name} " in out for name in NETS)
        assert "25,557,032" in out
        shown = call("list", "nets", "resnet50").out
        assert "group2: backbone.layer1" in shown
        assert shown.splitlines()[-1] == "--tune: all, head"
        answer = call("list", "nets", "resnet51")
        assert answer.code == 2
        assert "or 'resnet50'" in answer.err

    def test_a_network_of_timm(self, call: Call, timm: ModuleType) -> None:
        assert "group2: backbone.net.stages.0" in call("list", "nets", "timm:convnext_atto").out
        shown = call("list", "nets", "timm:vit_tiny_patch16_224").out
        assert shown.splitlines()[-1] == "--tune: all, head, lora, scale_shift, bitfit"


class TestChoice:
    @pytest.mark.parametrize(
        ("arguments", "name", "wanted"),
        [
            ("tiny-imagenet --imbalance step --rho 100", "tiny-imagenet", ("resnet18-s1", "200", "128", "0.1", "8")),
            ("tiny-imagenet --imbalance long_tailed --rho 10 --recipe paper", "tiny-imagenet",
             ("resnet18-s1", "200", "128", "0.1", "8")),
            ("tiered-imagenet", "tiered-imagenet", ("resnet12", "180", "512", "0.2", "8")),
            ("imagenet-lt", "imagenet-lt", ("resnet10", "200", "256", "0.1", "0")),
            ("imagenet-lt --recipe imagenet-lt-resnext50", "imagenet-lt-resnext50",
             ("resnext50", "200", "256", "0.1", "0")),
            ("inaturalist18", "inaturalist18", ("resnet50", "90", "128", "0.05", "0")),
            ("inaturalist18 --recipe inaturalist18-180", "inaturalist18-180", ("resnet50", "180", "128", "0.05", "0")),
            ("cifar100 --recipe cifar-densenet121", "cifar-densenet121", ("densenet121-s1", "300", "128", "0.1", "4")),
            ("cifar10 --recipe cifar-strong --method erm", "cifar-strong", ("resnet32", "200", "128", "0.1", "4")),
            ("digits", "digits", ("small", "60", "32", "0.05", "1")),
            ("my_photos", "images", ("resnet20", "100", "64", "0.05", "4")),
            ("my_photos --recipe tiny-imagenet --net resnet50", "tiny-imagenet",
             ("resnet50", "200", "128", "0.1", "8")),
        ],
    )  # fmt: skip
    def test_what_a_command_resolves_to(self, arguments: str, name: str, wanted: tuple[str, ...], call: Call) -> None:
        answer = call("train", *arguments.split(), "--dry-run")
        assert answer.code == 0, answer.err
        assert f"# The recipe these settings resolve to: {name}, {RECIPES[name][1]}" in answer.out
        recipe = recipe_in(answer.out)
        assert tuple(recipe[key] for key in ("net", "epochs", "batch_size", "lr", "padding")) == wanted
        assert set(recipe) == set(RECIPES[name][0].to_json()) - {"name"}

    @pytest.mark.parametrize(
        ("augment", "padding", "flip"),
        [
            ("none", "0", "False"),
            ("flip", "0", "True"),
            ("pad_crop_flip", "4", "True"),
            ("random_resized_crop", "0", "True"),
        ],
    )
    def test_augment(self, augment: str, padding: str, flip: str, call: Call) -> None:
        recipe = recipe_in(call("train", "cifar10", "--augment", augment, "--dry-run").out)
        assert (recipe["augment"], recipe["padding"], recipe["flip"]) == (augment, padding, flip)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ("digits --recipe paper", "the paper does not train on digits. Leave it out to train by 'digits'"),
            ("photos --recipe paper", "the paper does not train on photos"),
            ("digits --recipe papre", "there is no recipe 'papre'. Did you mean 'paper'"),
            ("imagenet-lt --method ldam --recipe own", "ldam was not published on imagenet-lt"),
            ("cifar10 --net resnet33", "there is no network 'resnet33'"),
            ("cifar10 --net keras:x", "before the colon stands the library"),
        ],
    )
    def test_refusals(self, arguments: str, message: str, call: Call) -> None:
        answer = call("train", *arguments.split(), "--dry-run")
        assert answer.code == 2
        assert message in answer.err


class TestRuns:
    def test_the_recipe_is_told_and_recorded(self, call: Call, npz: Path) -> None:
        answer = call("train", npz, "--net", "small", "--epochs", 1, "--augment", "none", "--run-dir", "run")
        assert answer.code == 0, answer.err
        assert "recipe images, this library's for images of your own: small, 1 epoch, batch 8" in answer.err
        recorded = load_result("run").record
        assert (recorded.recipe_name, recorded.recipe.name, recorded.recipe.augment) == ("images", "images", "none")

    def test_settings_are_judged_before_images_are_looked_for(self, call: Call) -> None:
        answer = call("train", "imagenet-lt", "--method", "ldam", "--recipe", "own")
        assert "ldam was not published on imagenet-lt" in answer.err

    def test_another_augmentation_is_carried_out(self, call: Call, npz: Path) -> None:
        run = ("--net", "small", "--epochs", 1, "--augment", "random_resized_crop", "--run-dir", "run")
        answer = call("train", npz, *run)
        assert answer.code == 0, answer.err
        assert json.loads(Path("run/result.json").read_text())["recipe"]["augment"] == "random_resized_crop"


class TestHash:
    def test_the_papers_recipe_has_two_names(self) -> None:
        auto, paper, own = (RunSpec("cifar10", recipe=name) for name in ("auto", "paper", "own"))
        assert auto.hash == paper.hash != own.hash

    def test_later_settings_count_once_they_are_set(self) -> None:
        plain = RunSpec("cifar10")
        assert RunSpec("cifar10", augment="none").hash != plain.hash
        assert RunSpec("cifar10", pretrained="x.pth").hash != plain.hash
        # The hash of these settings in version 0.1, which folders of runs are named after.
        assert RunSpec("cifar10", imbalance="step", rho=100, method="mfw", drw=True).hash == "2e8e23499afb"
