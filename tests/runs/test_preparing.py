"""A method that does not fit the network or the classes is refused before anything is trained."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Classify
from procrustean.balance.weights import DeferredWeights, FixedWeights
from procrustean.base import ConfigError
from procrustean.methods import Stage
from procrustean.nets import Classifier, build_net
from procrustean.nets.classifier import CosineHead, check_scores
from procrustean.runs.preparing import check_class_weights, check_named_parts

CLASSES = 5


def network(head: Callable[[int, int], nn.Module] | None = None) -> Classifier:
    return build_net("small", channels=1, classes=CLASSES, seed=0, head=head)


class Pair(nn.Linear):
    """A head that gives more than scores."""

    def forward(self, features: Tensor) -> Any:
        return super().forward(features), features


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            lambda features, classes: nn.Linear(features, classes + 1),
            "Linear (linear.py) gives (2, 6) for two images of 5",
        ),
        (
            lambda features, classes: nn.Linear(classes, classes),
            "Linear (linear.py) cannot take 64 features of each of",
        ),
        (
            Pair,
            "Pair (test_preparing.py) gives tuple for two images of 5 classes instead of (2, 5), a score for each",
        ),
    ],
)
def test_a_head_of_other_scores(head: Callable[[int, int], nn.Module], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"the head {message}")):
        check_scores(network(head), CLASSES)


def test_a_head_is_tried_without_a_trace() -> None:
    net = network(lambda features, classes: nn.Sequential(nn.BatchNorm1d(features), CosineHead(features, classes)))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    check_scores(net, CLASSES)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"trainable": "classifier"},
            "the network has no such part; name 'all', 'backbone', 'features', 'head' or a layer within",
        ),
        ({"trainable": ("head", "classifier")}, "trainable = 'classifier' received, but the network has no such part"),
        (
            {"rates": {"heads": 0.1}},
            "rates = {'heads': 0.1} received by the stage 'late', but nothing in 'heads' learns",
        ),
        ({"no_decay": ("head.bais",)}, "nothing in 'head.bais' learns there. Did you mean 'head.bias'"),
        ({"trainable": "head", "rates": {"backbone": 0.1}}, "nothing in 'backbone' learns there"),
    ],
)
def test_parts_that_are_not_there(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_named_parts(Stage(Classify(), name="late", **parts), network())


def test_parts_that_are_there() -> None:
    stage = Stage(Classify(), rates={"backbone.group1": 0.1, "head": 2}, no_decay=("head.bias",))
    check_named_parts(stage, network())


@pytest.mark.parametrize("made", [FixedWeights, DeferredWeights])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(20), "class weights of shape (20,) received for 5 classes; give {} one number for each class"),
        (torch.ones(3), "class weights of shape (3,) received for 5 classes"),
        (torch.ones(1, 5), "class weights of shape (1, 5) received"),
        (torch.tensor([1, 1, 1, 1, -0.5]), "class weights 1, 1, 1, 1, -0.5 received; give {} finite numbers of 0 or"),
        (torch.full((5,), torch.nan), "class weights nan, nan, nan, nan, nan received"),
        (torch.zeros(5), "class weights 0, 0, 0, 0, 0 received"),
    ],
)
def test_class_weights_that_are_none(made: Any, weights: Tensor, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message.format(made.__name__))):
        check_class_weights(Classify(weight=made(weights)), CLASSES)


def test_a_class_may_weigh_nothing() -> None:
    check_class_weights(Classify(weight=FixedWeights(torch.tensor([1, 1, 1, 1, 0.0]))), CLASSES)
