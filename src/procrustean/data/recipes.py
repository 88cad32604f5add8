"""The recipes by name, and which one a run takes: `--recipe` chooses, flags change, `list recipes` shows."""

from __future__ import annotations

from collections.abc import Iterator

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.data.recipe import CHOICES, STANDARD
from procrustean.data.recipe import Augment as Augment
from procrustean.data.recipe import Recipe as Recipe
from procrustean.data.recipe import lr_table as lr_table
from procrustean.data.sets.table import DATA_SETS, all_sets, known

#: The recipe for images of a user, about which nothing is known.
OWN_IMAGES = "images"


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


def recipe_for(source: str) -> Recipe:
    """The recipe of a data set, or that for images of a user."""
    return known(source).recipe if source in DATA_SETS else RECIPES[OWN_IMAGES][0]


def chosen_recipe(choice: str, source: str) -> Recipe:
    """The recipe that `--recipe` stands for on a data set, before the method changes it.

    Args:
        choice: auto, paper, own or the name of a recipe.
        source: a data set's name; anything else is images of a user.
    """
    check_recipe(choice)
    if choice == "paper" and data_set(source) not in PAPER:
        raise ConfigError(
            f"recipe 'paper' received, but the paper does not train on {source or 'these images'}. Leave it out to "
            f"train by {recipe_for(source).name!r}, {RECIPES[recipe_for(source).name][1]}, or name one of the "
            "paper's; procrustean list recipes lists them"
        )
    return recipe_for(source) if choice in CHOICES else RECIPES[choice][0]


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
