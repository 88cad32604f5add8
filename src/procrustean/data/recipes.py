"""The recipes by name, and which one a run takes: `--recipe` chooses, flags change, `procrustean recipes` shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.data.recipe import Augment as Augment
from procrustean.data.recipe import Recipe as Recipe
from procrustean.data.recipe import lr_table as lr_table

_IMAGENET: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

#: Sec. 5.1, supplement: ResNet-32, SGD, 5 warm-up epochs, cosine, crop, flip; 200 epochs but for MFW's 300.
_CIFAR = Recipe(
    name="cifar",
    net="resnet32",
    epochs=200,
    batch_size=128,
    lr=0.1,
    momentum=0.9,
    nesterov=False,
    weight_decay=2e-4,
    schedule="cosine",
    milestones=(),
    decay=0.1,
    warmup_epochs=5,
    augment="pad_crop_flip",
    crop=None,
    evaluation_crop=None,
    padding=4,
    flip=True,
    colour_jitter=0.0,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)

#: Supplement: the stronger augmentation of Tan et al. (2020), with which one number is given; all else as before.
_CIFAR_STRONG = replace(_CIFAR, name="cifar-strong", augment="strong")

#: The two steps of Cao et al. (2019), whose code the paper adapts; the paper itself says cosine.
_CIFAR_STEPS = replace(_CIFAR, name="cifar-steps", schedule="steps", milestones=(0.8, 0.9), decay=0.01)

#: Supplement, three numbers. Not told: the stem and the schedule.
_CIFAR_DENSENET = replace(_CIFAR, name="cifar-densenet121", net="densenet121-s1")

#: Supplement. Not told: the stem (see docs/networks.md), the weight decay (here that of Cao et al., whom the paper
#: follows) and the normalisation.
_TINY_IMAGENET = replace(
    _CIFAR, name="tiny-imagenet", net="resnet18-s1", epochs=200, warmup_epochs=0, padding=8, **_IMAGENET
)

#: Supplement. Not told: the weight decay and the normalisation (here those of Lee et al., whose code the paper adapts).
_TIERED_IMAGENET = replace(
    _CIFAR,
    name="tiered-imagenet",
    net="resnet12",
    epochs=180,
    batch_size=512,
    lr=0.2,
    weight_decay=5e-4,
    warmup_epochs=0,
    padding=8,
    mean=(0.4721, 0.4533, 0.4100),
    std=(0.2772, 0.2678, 0.2845),
)

#: Supplement: images of 256 x 256 pixels, random parts of 224 x 224. Not told: the weight decay (here that of Kang
#: et al.) and the normalisation.
_IMAGENET_LT = replace(
    _CIFAR,
    name="imagenet-lt",
    net="resnet10",
    epochs=200,
    batch_size=256,
    weight_decay=5e-4,
    warmup_epochs=0,
    padding=0,
    crop=224,
    evaluation_crop=224,
    **_IMAGENET,
)

#: Supplement: rate times 0.1 after epochs 60 and 80 of 90, or 120 and 160 of 180. Not told: the weight decay (here
#: that of Zhou et al., whose code the paper adapts) and the normalisation (here that of Kang et al.).
_INATURALIST = replace(
    _IMAGENET_LT,
    name="inaturalist18",
    net="resnet50",
    epochs=90,
    batch_size=128,
    lr=0.05,
    weight_decay=1e-4,
    schedule="steps",
    milestones=(60 / 90, 80 / 90),
    decay=0.1,
    mean=(0.466, 0.471, 0.380),
    std=(0.195, 0.194, 0.192),
)

#: 8 x 8 digits on a CPU: small batches, since images are few; no flip: a mirrored digit is another sign.
_DIGITS = replace(
    _CIFAR,
    name="digits",
    net="small",
    epochs=60,
    batch_size=32,
    lr=0.05,
    weight_decay=5e-4,
    padding=1,
    flip=False,
    mean=None,
    std=None,
)

#: The recipe for images of a user, about which nothing is known.
OWN_IMAGES = "images"
_IMAGES = replace(
    _CIFAR,
    name=OWN_IMAGES,
    net="resnet20",
    epochs=100,
    batch_size=64,
    lr=0.05,
    weight_decay=5e-4,
    mean=None,
    std=None,
)

#: name -> the recipe and, in a line, what it is for.
RECIPES: dict[str, tuple[Recipe, str]] = {
    recipe.name: (recipe, about)
    for recipe, about in (
        (_CIFAR, "the paper's for CIFAR-10 and CIFAR-100"),
        (_CIFAR_STEPS, "the paper's for CIFAR, but with the two steps of Cao et al. instead of the cosine"),
        (_CIFAR_STRONG, "the paper's for CIFAR with AutoAugment and Cutout"),
        (_CIFAR_DENSENET, "the paper's for CIFAR with DenseNet-121"),
        (_TINY_IMAGENET, "the paper's for Tiny-ImageNet, long-tailed and step"),
        (_TIERED_IMAGENET, "the paper's for step-imbalanced Tiered-ImageNet"),
        (_IMAGENET_LT, "the paper's for ImageNet-LT with ResNet-10"),
        (
            replace(_IMAGENET_LT, name="imagenet-lt-resnext50", net="resnext50"),
            "the paper's for ImageNet-LT with ResNeXt-50",
        ),
        (_INATURALIST, "the paper's for iNaturalist 2018, 90 epochs"),
        (replace(_INATURALIST, name="inaturalist18-180", epochs=180), "the paper's for iNaturalist 2018, 180 epochs"),
        (_DIGITS, "this library's for the bundled digits"),
        (_IMAGES, "this library's for images of your own"),
    )
}

#: Data sets of the paper -> the recipe of its main tables.
PAPER = {
    "cifar10": "cifar",
    "cifar100": "cifar",
    "tiny-imagenet": "tiny-imagenet",
    "tiered-imagenet": "tiered-imagenet",
    "imagenet-lt": "imagenet-lt",
    "inaturalist18": "inaturalist18",
}

#: What `--recipe` takes beside the names: the data set's, the same if the paper has one, the method's own.
CHOICES = ("auto", "paper", "own")


def data_set(source: str) -> str:
    """The data set that a source belongs to: options are tuned on other minor classes of it than are reported.

    >>> data_set("tiered-imagenet-tuning"), data_set("cifar10")
    ('tiered-imagenet', 'cifar10')
    """
    whole = source.removesuffix("-tuning")
    return whole if whole in PAPER else source


def recipe_for(source: str) -> Recipe:
    """The recipe of a data set: the paper's where the paper has one, else this library's."""
    return RECIPES[PAPER.get(data_set(source), "digits" if source == "digits" else OWN_IMAGES)][0]


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
            "paper's; procrustean recipes lists them"
        )
    return recipe_for(source) if choice in CHOICES else RECIPES[choice][0]


def check_recipe(choice: str) -> None:
    """ConfigError for a recipe that is not there."""
    if choice not in CHOICES and choice not in RECIPES:
        known = (*CHOICES, *RECIPES)
        raise ConfigError(
            f"there is no recipe {choice!r}. {did_you_mean(choice, known)} procrustean recipes lists them"
        )


def recipe_label(choice: str, recipe: Recipe, source: str) -> str:
    """The recipe's name in tables: own, paper for the data set's of the paper, else its own name."""
    if choice == "own":
        return "own"
    return "paper" if PAPER.get(data_set(source)) == recipe.name else recipe.name
