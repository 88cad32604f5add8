"""The recipes by name, and which one a run takes: `--recipe` chooses, flags change, `list recipes` shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.data.recipe import CHOICES, STANDARD, Tune
from procrustean.data.recipe import Recipe as Recipe
from procrustean.data.recipe import lr_table as lr_table
from procrustean.data.recipe import step_rates as step_rates
from procrustean.data.sets.data_set_table import DATA_SETS, all_sets, known

#: The recipe for images of a user, about which nothing is known.
OWN_IMAGES = "images"
#: The same for a network that starts from pretrained weights.
FINE_TUNING = "fine-tuning"
#: For a head alone on its features, for an adapter in it, and for a small network on photographs without such weights.
FEATURES, ADAPTERS, PHOTOGRAPHS = "features", "adapters", "photographs"


def _described() -> Iterator[tuple[Recipe, str]]:
    """Every recipe and, in a line, what it is for."""
    for recipe in dict.fromkeys(found.recipe for found in all_sets()):
        sharing = [found for found in all_sets() if found.recipe == recipe]
        titles = dict.fromkeys(found.title for found in sharing)
        yield recipe, f"{'the paper' if sharing[0].in_paper else 'this library'}'s for {' and '.join(titles)}"
        for found in sharing:
            for about, variant in found.variants.items():
                yield variant, about
    images = STANDARD.named(OWN_IMAGES, net="resnet20", epochs=100, batch_size=64, lr=0.05, weight_decay=5e-4)
    yield images, "this library's for images of your own"
    photographs = images.named(
        PHOTOGRAPHS, net="convnet", epochs=30, batch_size=32, optimizer="adamw", schedule="one_cycle", lr=3e-3,
        warmup_epochs=0, weight_decay=0.05, augment="resized_crop", crop_area=0.4,
    )  # fmt: skip
    yield photographs, "this library's for photographs and a small network from scratch"
    features = images.named(
        FEATURES, net="efficientnet_lite0", epochs=60, lr=0.03, nesterov=True, warmup_epochs=0, weight_decay=0.1,
        augment="resized_crop", crop_area=0.4,
    )  # fmt: skip
    yield features, "this library's for a head on features of your own images"
    adapters = images.named(
        ADAPTERS, net="timm:vit_small_patch16_224", epochs=20, batch_size=32, optimizer="adamw", schedule="one_cycle",
        lr=1e-3, warmup_epochs=0, weight_decay=0.01, augment="resized_crop", crop_area=0.4,
    )  # fmt: skip
    yield adapters, "this library's for adapters in a pretrained vision transformer"
    # EfficientNet's statistics follow a batch by a hundredth, too slow for the few hundred steps of a fine tuning.
    tuning = photographs.named(
        FINE_TUNING, net="efficientnet_lite0", epochs=12, lr=1e-3, backbone_rate=0.3, norm_momentum=0.1
    )  # fmt: skip
    yield tuning, "this library's for images of your own and pretrained weights"


#: name -> the recipe and what it is for.
RECIPES: dict[str, tuple[Recipe, str]] = {recipe.name: (recipe, about) for recipe, about in _described()}

#: Data sets of the paper -> the recipe of its main tables.
PAPER = {found.name: found.recipe.name for found in all_sets() if found.in_paper and not found.tuning_of}


def data_set(source: str) -> str:
    """The data set that a source belongs to: options are tuned on other minor classes of it than are reported.

    >>> data_set("tiered-imagenet-tuning"), data_set("cifar10")
    ('tiered-imagenet', 'cifar10')
    """
    return (known(source).tuning_of or source) if source in DATA_SETS else source


def recipe_for(source: str, *, pretrained: bool = False, tune: Tune = "all") -> Recipe:
    """The recipe of a data set, or that for images of a user, which depends on what learns and on its weights."""
    if tune != "all":
        return RECIPES[FEATURES if tune == "head" else ADAPTERS][0]
    return known(source).recipe if source in DATA_SETS else RECIPES[FINE_TUNING if pretrained else OWN_IMAGES][0]


def chosen_recipe(choice: str, source: str, *, pretrained: bool = False, tune: Tune = "all") -> Recipe:
    """The recipe that `--recipe` stands for on a data set, before the method changes it.

    Args:
        choice: auto, paper, own or the name of a recipe.
        source: a data set's name; anything else is images of a user.
        pretrained: whether the network starts from pretrained weights.
        tune: what of it learns.
    """
    check_recipe(choice)
    if choice == "paper" and data_set(source) not in PAPER:
        raise ConfigError(
            f"recipe 'paper' received, but the paper does not train on {source or 'these images'}. Leave it out to "
            f"train by {recipe_for(source).name!r}, {RECIPES[recipe_for(source).name][1]}, or name one of the "
            "paper's; procrustean list recipes lists them"
        )
    return recipe_for(source, pretrained=pretrained, tune=tune) if choice in CHOICES else RECIPES[choice][0]


def check_recipe(choice: str) -> None:
    """ConfigError for a recipe that is not there."""
    if choice not in CHOICES and choice not in RECIPES:
        known = (*CHOICES, *RECIPES)
        raise ConfigError(
            f"there is no recipe {choice!r}. {did_you_mean(choice, known)} procrustean list recipes lists them"
        )


def recipe_label(choice: str, recipe: Recipe, source: str) -> str:
    """The recipe's name in tables: own, paper for the data set's of the paper, else its own name."""
    if choice == "own":
        return "own"
    return "paper" if PAPER.get(data_set(source)) == recipe.name else recipe.name


_Values = TypeVar("_Values")


def published(
    source: str, usual: Mapping[str, Any], elsewhere: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any] | None:
    """What a method's own publication changes in the recipe of a data set; None where it publishes nothing for it.

    Args:
        source: the data set.
        usual: the changes on CIFAR, which are also the best guess for images that nobody has published about.
        elsewhere: the changes on the larger data sets it was published on.
    """
    if elsewhere and source in elsewhere:
        return dict(elsewhere[source])
    return None if is_large(source) else dict(usual)


def nearest_published(values: Mapping[str, Mapping[int, _Values]], source: str, counts: Sequence[int]) -> _Values:
    """What was published for the nearest ratio of class sizes, on the data set or else on CIFAR-10.

    Args:
        values: by data set and ratio of the largest to the smallest class.
        source: the data set.
        counts: images per class.
    """
    by_ratio = values.get(source, values["cifar10"])
    ratio = max(counts) / min(counts)
    return by_ratio[min(by_ratio, key=lambda known: abs(math.log(known / ratio)))]


def is_large(source: str) -> bool:
    """Whether it is one of the paper's data sets other than CIFAR."""
    return source in PAPER and not source.startswith("cifar")


def ldam_schedule() -> dict[str, Any]:
    """The schedule Cao et al. (2019) published LDAM on CIFAR with and re-ran ERM, focal and class-balanced with."""
    return {"epochs": 200, "schedule": "steps", "milestones": (0.8, 0.9), "decay": 0.01}


def ldam_recipe(source: str) -> dict[str, Any] | None:
    """What Cao et al. trained LDAM, ERM, focal and class-balanced with on a data set."""
    tiny = {"epochs": 120, "schedule": "steps", "milestones": (90 / 120,), "decay": 0.1}
    return published(source, ldam_schedule(), {"tiny-imagenet": tiny})


def label_mixing_recipe(source: str) -> dict[str, Any] | None:
    """What Cheng and Lin trained MAMix and re-ran Remix with, longer where there are more classes."""
    long = {"epochs": 300, "schedule": "steps", "milestones": (150 / 300, 250 / 300), "decay": 0.1}
    return published(source, long if source == "cifar100" else ldam_schedule(), {"tiny-imagenet": long})


def decoupling_recipes() -> dict[str, dict[str, Any]]:
    """What Kang et al. (2020) learnt features with on the large data sets, before anything about the classifier."""
    views = {"augment": "random_resized_crop", "crop": 224, "evaluation_crop": 224}
    usual = {"epochs": 90, "batch_size": 512, "lr": 0.2, "schedule": "cosine", "warmup_epochs": 0, **views}
    return {
        "imagenet-lt": {**usual, "weight_decay": 5e-4, "colour_jitter": 0.4},
        "inaturalist18": {**usual, "weight_decay": 1e-4},
    }


@dataclass(frozen=True)
class Decoupling:
    """How features and classifier share the epochs of a method that learns them one after the other."""

    features: float  # share of the epochs
    classifier: float
    second_stage: dict[str, Any]  # changes to the recipe while the classifier is learnt
    longer: float  # epochs of both, relative to those of a recipe that learns features alone
    own: dict[str, Any] | None


def decoupling(source: str, *, imagenet: int, inaturalist: int) -> Decoupling:
    """Kang et al. train 90 epochs, then the classifier alone; Zhang et al. (Bag of tricks, 2021) 200 and 30 on CIFAR.

    Args:
        source: the data set.
        imagenet, inaturalist: epochs of the classifier on ImageNet-LT and on iNaturalist.
    """
    first, second = (90, inaturalist if source == "inaturalist18" else imagenet) if is_large(source) else (200, 30)
    total = first + second
    cifar: dict[str, Any] = {"milestones": (1 / 3, 2 / 3), "decay": 0.1, "weight_decay": 5e-4}
    elsewhere = {name: {**changes, "epochs": total} for name, changes in decoupling_recipes().items()}
    return Decoupling(
        features=first / total,
        classifier=second / total,
        # On CIFAR the rate falls in steps only where the schedule says so.
        second_stage={"schedule": "cosine", "warmup_epochs": 0} if is_large(source) else cifar,
        # The features are learnt for as long as the paper's recipe says, and the classifier beyond that.
        longer=total / first if source in PAPER else 1.0,
        own=published(source, {**ldam_schedule(), "epochs": total}, elsewhere),
    )
