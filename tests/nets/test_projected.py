"""Networks with features of width 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from procrustean import fit
from procrustean.base import ConfigError
from procrustean.nets import build_net
from procrustean.nets.build import layers_of


def test_it_is_the_network_with_one_linear_layer_more() -> None:
    plain, planar = (build_net(name, channels=3, classes=4, seed=0) for name in ("resnet32", "resnet32-2d"))
    added = (64 * 2 + 2) + (2 * 4 + 4) - (64 * 4 + 4)
    sizes = [sum(p.numel() for p in net.parameters()) for net in (plain, planar)]
    assert sizes[1] - sizes[0] == added
    assert planar.backbone.features == 2
    assert planar.mixable == plain.mixable
    assert planar.second_group == "group2"
    assert layers_of("resnet32-2d").groups == layers_of("resnet32").groups


def test_the_feature_is_a_linear_function_of_that_of_the_network() -> None:
    planar = build_net("small-2d", channels=1, classes=4, seed=1).eval()
    x = torch.randn(5, 1, 8, 8)
    maps = planar.backbone.group3(planar.backbone.group2(planar.backbone.group1(x)))
    wide = maps.mean((2, 3))
    projection = planar.backbone.projection
    expected = wide @ projection.weight.T + projection.bias
    assert torch.allclose(planar.backbone(x), expected, atol=1e-6)
    assert planar(x).shape == (5, 4)
    assert isinstance(planar.head, nn.Linear)


def test_the_feature_keeps_its_digits_under_autocast() -> None:
    planar = build_net("small-2d", channels=1, classes=4, seed=1).eval()
    x = torch.randn(5, 1, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        feature = planar.backbone(x)
    assert feature.dtype == torch.float32
    assert not torch.equal(feature, feature.bfloat16().float())


def test_the_narrow_layers_start_with_small_weights() -> None:
    """Kaiming weights of a layer with 2 inputs have a standard deviation of 1, and training breaks down."""
    planar = build_net("resnet32-2d", channels=3, classes=4, seed=0)
    assert planar.head.weight.abs().max() <= 1 / 2**0.5
    assert planar.backbone.projection.weight.abs().max() <= 1 / 64**0.5
    again = build_net("resnet32-2d", channels=3, classes=4, seed=0)
    assert torch.equal(planar.head.weight, again.head.weight)
    wide = build_net("resnet32", channels=3, classes=4, seed=0)
    assert wide.head.weight.abs().max() > 2 / 64**0.5  # normal, as ever


@pytest.mark.parametrize("method", ["bbn", "oltr"])
def test_methods_that_rebuild_the_network_refuse_it(method: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="those with -2d excepted"):
        fit("digits", method=method, net="small-2d", epochs=3, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
