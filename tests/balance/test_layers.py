"""Layers found by name, and what is said when there is none."""

from __future__ import annotations

import pytest
from torch import nn

from procrustean.balance.layers import find_layer, layer_names, published_layers
from procrustean.base import LayerError
from procrustean.nets import build_net


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    return build_net("resnet20", channels=3, classes=10, seed=0)


def test_published_names_come_first(resnet: nn.Module) -> None:
    names = layer_names(resnet)
    assert names[:5] == ["input", "group1", "group2", "group3", "group4"]
    assert "backbone.group2.0.first.conv" in names
    assert "" not in names


def test_a_published_name_and_its_path_are_the_same_module(resnet: nn.Module) -> None:
    assert find_layer(resnet, "group2") is resnet.get_submodule("backbone.group2")
    assert find_layer(resnet, "backbone.group2.1") is resnet.get_submodule("backbone.group2.1")
    assert find_layer(resnet, "head") is resnet.get_submodule("head")


def test_models_that_publish_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert published_layers(model) == {}
    assert find_layer(model, "0") is model[0]


def test_near_names_in_a_large_model(resnet: nn.Module) -> None:
    with pytest.raises(LayerError, match=r"Classifier has no layer 'group7'.*'group[1-4]'.*balance\.suggest"):
        find_layer(resnet, "group7")


def test_all_names_in_a_small_model() -> None:
    with pytest.raises(LayerError, match=r"Sequential has no layer 'layer1'\. Its layers: 0, 1"):
        find_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), "layer1")


def test_the_model_itself_is_not_a_layer(resnet: nn.Module) -> None:
    with pytest.raises(LayerError, match="has no layer ''"):
        find_layer(resnet, "")


def test_a_layer_of_a_wrapped_model_is_named_in_full() -> None:
    wrapped = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with pytest.raises(LayerError, match=r"Sequential has no layer '1'\. It has '0\.1'\."):
        find_layer(wrapped, "1")
