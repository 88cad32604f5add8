"""A training step of every recipe with its own network, at full width on small images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from procrustean.balance import Problem
from procrustean.data import RECIPES, ImageSet, lr_table, recipe_for
from procrustean.data.recipes import PAPER, Recipe
from procrustean.engine.device import place
from procrustean.engine.engines import Engine
from procrustean.engine.image_stores import augmentation_of
from procrustean.engine.images import ImageStore
from procrustean.engine.stage_training import StageRun
from procrustean.methods import make_method
from procrustean.nets import build_net
from procrustean.nets.build import layers_of

CPU = torch.device("cpu")


def at_small_size(recipe: Recipe) -> Recipe:
    """The recipe for 16 x 16 pixels, as they are."""
    changes = {"batch_size": 4, "crop": None, "evaluation_crop": None}
    if recipe.augment == "strong":  # worked on image by image on the host, which a stage alone does not do
        changes["augment"] = "pad_crop_flip"
    if recipe.mean is None:
        changes |= {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    return recipe.changed(changes)


# The transformer of the recipe for adapters is for larger images.
@pytest.mark.parametrize("name", [name for name in RECIPES if name != "adapters"])
def test_a_step_of_each_network_in_its_recipe(name: str) -> None:
    recipe = at_small_size(RECIPES[name][0])
    images = np.random.RandomState(0).randint(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    train = ImageSet(images, np.array([0, 0, 0, 1]), ("a", "b"))
    layers = layers_of(recipe.net)
    problem = Problem((3, 1), "step", layers=tuple(layers.groups), second_group=layers.second_group)
    net = build_net(recipe.net, channels=3, classes=2, seed=0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = {key: value.clone() for key, value in net.state_dict().items()}
    mean, std = recipe.normalisation
    stage = StageRun(
        make_method("mfw", problem).stages[0],
        0,
        net=net,
        train=train,
        images=ImageStore(train, device=CPU, mean=mean, std=std, augmentation=augmentation_of(recipe, train)),
        recipe=recipe,
        epochs=recipe.epochs,
        seed=0,
        placement=place("cpu", "fp32"),
        engine=Engine("eager", "a test"),
    )
    stage.begin_epoch(0)
    assert stage.advance(0, 1) == 1
    assert stage.non_finite() is None
    assert 0 < stage.mean_loss() < 20
    by_the_step = recipe.schedule == "one_cycle"  # which starts at a twenty-fifth
    rate = recipe.lr / 25 if by_the_step else lr_table(recipe, recipe.epochs)[0]
    assert float(stage.clock.lr) == pytest.approx(rate)
    after = stage.weights()
    moved = [key for key, _ in net.named_parameters() if not torch.equal(before[key], after[key])]
    assert len(moved) == len(list(net.parameters()))
    if recipe.optimizer != "sgd":
        return
    # A first step of SGD is the rate times the gradient, the penalty included.
    optimizer = stage.optimizer
    step = float(stage.clock.lr) * optimizer.velocity * (1 + recipe.momentum * recipe.nesterov)
    key = "head.bias"
    change = dict(stage.parameters.named(step))[key]
    torch.testing.assert_close(before[key] - after[key], change, atol=1e-6, rtol=1e-4)


def test_every_recipe_of_the_paper_has_its_schedule() -> None:
    """First, middle and last rates, to be seen beside each other."""
    found = {}
    for source in PAPER:
        recipe = recipe_for(source)
        rates = lr_table(recipe, recipe.epochs)
        found[source] = (rates[0], rates[recipe.epochs // 2], rates[-1])
        assert not math.isclose(rates[0], rates[-1])
    assert found["tiny-imagenet"] == pytest.approx((0.1, 0.05, 6.17e-6), rel=1e-2)
    assert found["tiered-imagenet"] == pytest.approx((0.2, 0.1, 1.52e-5), rel=1e-2)
    assert found["imagenet-lt"] == pytest.approx((0.1, 0.05, 6.17e-6), rel=1e-2)
    assert found["inaturalist18"] == pytest.approx((0.05, 0.05, 5e-4))
