"""What methods were published with on each data set, and what they leave to the paper's recipe."""

from __future__ import annotations

from typing import Any

import pytest

from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.data import lr_table, recipe_for
from procrustean.data.recipes import PAPER, decoupling_recipes, published
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods import METHODS, Method, deconfound, make_method, mfw, mislas, seql
from procrustean.records import RunSpec
from procrustean.runs.preparing import recipe_of

#: The large data sets that the methods of the paper's tables, and those beside them, were published on.
ON_LARGE = {
    "tiny-imagenet": "erm focal class_balanced ldam cdt remix mamix mfw",
    "tiered-imagenet": "mfw",
    "imagenet-lt": "tau_norm crt lws oltr deconfound mfw",
    "inaturalist18": "tau_norm crt lws bbn remix mfw",
}
ELSEWHERE = (
    "seql mixup manifold_mixup meta_weight domain_adaptation m2m balanced_softmax logit_adjustment vs "
    "label_aware_smoothing mislas cmo"
)


def made(method: str, source: str, **options: Any) -> Method:
    return make_method(method, Problem((50, 20, 5), "long_tailed", source), options)


class TestPublished:
    def test_where(self) -> None:
        usual, elsewhere = {"epochs": 1}, {"imagenet-lt": {"epochs": 2}}
        for source in ("cifar10", "cifar100", "digits", ""):
            assert published(source, usual, elsewhere) == usual
        assert published("imagenet-lt", usual, elsewhere) == {"epochs": 2}
        assert published("inaturalist18", usual, elsewhere) is published("tiny-imagenet", usual) is None

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("source", [*PAPER, "digits", ""])
    def test_changes_fit_the_recipe(self, method: str, source: str) -> None:
        method_made = made(method, source)
        for changes in (method_made.paper, method_made.own):
            if changes is not None:
                recipe = recipe_for(source).changed(changes)
                lengths = stage_epochs(method_made, recipe.epochs)
                for stage, epochs in zip(method_made.stages, lengths, strict=True):
                    assert len(lr_table(recipe.changed(stage.recipe), epochs)) == epochs
        if source not in ON_LARGE:  # what it has on CIFAR, if anything, is the best guess for other images
            assert (method_made.own is None) == (made(method, "cifar10").own is None)

    def test_who_has_published_on_the_large_ones(self) -> None:
        known = {method for methods in (*ON_LARGE.values(), ELSEWHERE) for method in methods.split()}
        for source, methods in ON_LARGE.items():
            assert {method for method in known if made(method, source).own is not None} == set(methods.split())


class TestDecoupling:
    """Kang et al.: 90 epochs, batch 512, rate 0.2; then the classifier for 10 (iNaturalist 30), scales for 5."""

    @pytest.mark.parametrize(
        ("method", "source", "own", "paper"),
        [
            ("crt", "imagenet-lt", [90, 10], [200, 22]),
            ("crt", "inaturalist18", [90, 30], [90, 30]),
            ("lws", "imagenet-lt", [90, 5], [200, 11]),
            ("lws", "inaturalist18", [90, 5], [90, 5]),
            ("crt", "tiered-imagenet", None, [180, 20]),
            ("crt", "tiny-imagenet", None, [200, 22]),
            ("crt", "cifar100", [200, 30], [200, 30]),
            ("lws", "cifar10", [200, 30], [200, 30]),
        ],
    )
    def test_epochs(self, method: str, source: str, own: list[int] | None, paper: list[int]) -> None:
        found = made(method, source)
        assert stage_epochs(found, recipe_of(RunSpec(source, method=method)).epochs) == paper
        assert (found.own is None) == (own is None)
        if found.own is not None:
            assert stage_epochs(found, recipe_for(source).changed(found.own).epochs) == own

    def test_the_classifier_comes_on_top_of_a_longer_recipe_too(self) -> None:
        recipe = recipe_of(RunSpec("inaturalist18", method="crt", recipe="inaturalist18-180"))
        assert stage_epochs(made("crt", "inaturalist18"), recipe.epochs) == [180, 60]

    def test_numbers(self) -> None:
        own = recipe_for("imagenet-lt").changed(decoupling_recipes()["imagenet-lt"])
        assert (own.batch_size, own.lr, own.weight_decay, own.schedule) == (512, 0.2, 5e-4, "cosine")
        assert (own.augment, own.colour_jitter, own.crop) == ("random_resized_crop", 0.4, 224)
        other = recipe_for("inaturalist18").changed(decoupling_recipes()["inaturalist18"])
        assert (other.batch_size, other.lr, other.weight_decay, other.schedule) == (512, 0.2, 1e-4, "cosine")
        assert other.colour_jitter == 0

    def test_the_classifier_is_learnt_by_a_cosine_of_its_own(self) -> None:
        found = made("crt", "inaturalist18")
        recipe = recipe_for("inaturalist18").changed(found.stages[1].recipe)  # the rate of the features falls in steps
        rates = lr_table(recipe, 30)
        assert rates[0] == pytest.approx(0.05)
        assert rates[15] == pytest.approx(0.025)


def test_others_on_large_data_sets() -> None:
    bbn = recipe_for("inaturalist18").changed(made("bbn", "inaturalist18").own or {})
    assert (bbn.nesterov, bbn.augment, bbn.epochs, bbn.lr) == (True, "random_resized_crop", 90, 0.05)
    oltr = recipe_for("imagenet-lt").changed(made("oltr", "imagenet-lt").own or {})
    assert (oltr.batch_size, oltr.lr, oltr.epochs, oltr.colour_jitter) == (128, 0.1, 90, 0.4)
    assert stage_epochs(made("oltr", "imagenet-lt"), oltr.epochs) == [30, 60]
    remix = recipe_for("inaturalist18").changed(made("remix", "inaturalist18").own or {})
    assert remix == recipe_for("inaturalist18").changed({"batch_size": 256})
    tiny = recipe_for("tiny-imagenet").changed(made("mamix", "tiny-imagenet").own or {})
    assert lr_table(tiny, 300)[149:151] == pytest.approx([0.1, 0.01])
    ldam = recipe_for("tiny-imagenet").changed(made("ldam", "tiny-imagenet").own or {})
    assert lr_table(ldam, ldam.epochs) == pytest.approx([0.1] * 90 + [0.01] * 30)
    for source in PAPER:
        assert recipe_of(RunSpec(source, method="m2m")).epochs == 2 * recipe_for(source).epochs


@pytest.mark.parametrize("method", METHODS)
def test_options_are_tuned_by_the_recipe_that_is_reported(method: str) -> None:
    for recipe in ("auto", "paper"):
        tuned, reported = (
            recipe_of(RunSpec(source, method=method, recipe=recipe))
            for source in ("tiered-imagenet-tuning", "tiered-imagenet")
        )
        assert tuned == reported


def test_own_recipes_are_refused_on_the_tuning_classes_as_on_the_others() -> None:
    for source in ("tiered-imagenet-tuning", "tiered-imagenet"):
        with pytest.raises(ConfigError, match=f"crt was not published on {source}"):
            recipe_of(RunSpec(source, method="crt", recipe="own"))


def test_constants_of_methods_belong_to_data_sets_that_there_are() -> None:
    kept = [*deconfound.ALPHA, *seql.LAM, *mislas.PUBLISHED, *(source for source, _ in mfw.ALPHA)]
    assert set(kept) <= set(PAPER)
