"""Networks: sizes, feature maps, shortcuts, initial weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.base import ConfigError
from procrustean.nets import Classifier, build_net
from procrustean.nets.blocks import BatchNorm, ConvGroupNormReLU
from procrustean.nets.build import check_net
from procrustean.nets.classifier import CosineHead
from procrustean.nets.resnet_cifar import BatchNormBlock, Shortcut
from procrustean.nets.small import DepthwiseBlock


def size(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def built(name: str = "small", *, seed: int = 0, **changes: Any) -> Classifier:
    return build_net(name, **{"channels": 3, "classes": 10, "seed": seed, **changes})


def outputs(net: Classifier, x: Tensor) -> dict[str, tuple[int, ...]]:
    """Shape of the output of every published layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, path in net.mixable.items():

        def note(module: nn.Module, args: Any, output: Tensor, name: str = name) -> None:
            shapes[name] = tuple(output.shape)

        net.get_submodule(path).register_forward_hook(note)
    net(x)
    return shapes


class TestResNet:
    @pytest.mark.parametrize(
        ("name", "classes", "parameters"),
        [
            ("resnet20", 10, 269_722),
            ("resnet32", 10, 464_154),
            ("resnet32", 100, 470_004),
            ("resnet44", 10, 658_586),
            ("resnet56", 10, 853_018),
        ],
    )
    def test_number_of_parameters(self, name: str, classes: int, parameters: int) -> None:
        assert size(built(name, classes=classes)) == parameters

    @pytest.mark.parametrize(("classes", "parameters"), [(10, 464_144), (100, 469_904)])
    def test_number_of_parameters_with_a_cosine_head(self, classes: int, parameters: int) -> None:
        assert size(built("resnet32", classes=classes, head=CosineHead)) == parameters

    @pytest.mark.parametrize(("name", "layers"), [("resnet20", 20), ("resnet32", 32), ("resnet56", 56)])
    def test_the_name_counts_the_weighted_layers(self, name: str, layers: int) -> None:
        weighted = [m for m in built(name).modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert len(weighted) == layers

    def test_feature_maps(self) -> None:
        assert outputs(built("resnet32"), torch.randn(2, 3, 32, 32)) == {
            "input": (2, 3, 32, 32),
            "group1": (2, 16, 32, 32),
            "group2": (2, 16, 32, 32),
            "group3": (2, 32, 16, 16),
            "group4": (2, 64, 8, 8),
        }

    def test_score_is_the_head_of_the_mean_feature_map(self) -> None:
        net = built("resnet20").eval()
        x = torch.randn(2, 3, 16, 16)
        z = x
        for group in ("group1", "group2", "group3", "group4"):
            z = net.backbone.get_submodule(group)(z)
        torch.testing.assert_close(net(x), net.head(z.flatten(2).mean(2)))

    def test_the_second_group_is_the_first_stage(self) -> None:
        net = built("resnet32")
        assert net.second_group == "group2"
        stage = net.get_submodule(net.mixable["group2"])
        assert isinstance(stage, nn.Sequential)
        assert len(stage) == 5

    @pytest.mark.parametrize("channels", [1, 3])
    def test_colour_channels(self, channels: int) -> None:
        assert built("resnet20", channels=channels)(torch.randn(2, channels, 32, 32)).shape == (2, 10)

    def test_a_block_by_hand(self) -> None:
        block = BatchNormBlock(4, 8, 2).eval()
        x = torch.randn(2, 4, 6, 6)
        first, second = block.first, block.second
        y = first.norm(first.conv(x)).clamp_min(0)
        wanted = (second.norm(second.conv(y)) + block.shortcut(x)).clamp_min(0)
        torch.testing.assert_close(block(x), wanted)
        assert isinstance(BatchNormBlock(4, 4, 1).shortcut, nn.Identity)


@pytest.mark.parametrize(
    ("inputs", "wanted", "stride", "height"), [(16, 32, 2, 8), (4, 8, 2, 7), (4, 7, 2, 4), (3, 6, 1, 4)]
)
def test_shortcut_by_hand(inputs: int, wanted: int, stride: int, height: int) -> None:
    x = torch.randn(2, inputs, height, height)
    before = (wanted - inputs) // 2
    side = -(-height // stride)
    naive = torch.zeros(2, wanted, side, side)
    for channel in range(inputs):
        for row in range(side):
            for column in range(side):
                naive[:, before + channel, row, column] = x[:, channel, row * stride, column * stride]
    shortcut = Shortcut(inputs, wanted, stride)
    assert torch.equal(shortcut(x), naive)
    assert not list(shortcut.parameters())


class TestSmallNet:
    def test_feature_maps(self) -> None:
        net = built("small", channels=1)
        assert outputs(net, torch.randn(2, 1, 8, 8)) == {
            "input": (2, 1, 8, 8),
            "group1": (2, 16, 8, 8),
            "group2": (2, 32, 4, 4),
            "group3": (2, 64, 2, 2),
        }
        assert net.second_group == "group2"
        assert net(torch.randn(2, 1, 8, 8)).shape == (2, 10)

    def test_it_is_small(self) -> None:
        assert size(built("small", channels=1)) < 30_000


class TestWithoutBatchStatistics:
    @pytest.mark.parametrize(("name", "parameters"), [("resnet20-gn", 269_722), ("resnet32-gn", 464_154)])
    def test_group_normalisation_has_the_parameters_of_batch_normalisation(self, name: str, parameters: int) -> None:
        net, twin = built(name), built(name.removesuffix("-gn"))
        assert size(net) == size(twin) == parameters
        assert outputs(net, torch.randn(2, 3, 32, 32)) == outputs(twin, torch.randn(2, 3, 32, 32))
        shapes = [{key: value.shape for key, value in n.named_parameters()} for n in (net, twin)]
        assert shapes[0] == shapes[1]

    def test_group_normalisation_by_hand(self) -> None:
        unit = ConvGroupNormReLU(4, 8, groups=4)
        x, residual = torch.randn(2, 4, 5, 5), torch.randn(2, 8, 5, 5)
        y = unit.conv(x).view(2, 4, 2 * 25)  # four groups of two channels
        y = (y - y.mean(2, keepdim=True)) / (y.var(2, keepdim=True, correction=0) + unit.norm.eps).sqrt()
        torch.testing.assert_close(unit(x, residual), (y.view(2, 8, 5, 5) + residual).clamp_min(0))

    @pytest.mark.parametrize(("side", "maps"), [(32, (16, 16, 8, 4)), (8, (4, 4, 2, 1))])
    def test_layer_normalisation_for_large_and_tiny_images(self, side: int, maps: tuple[int, ...]) -> None:
        net = built("convnet-ln")
        found = outputs(net, torch.randn(2, 3, side, side))
        widths = (48, 48, 96, 192)
        assert list(found.values())[1:] == [(2, width, m, m) for width, m in zip(widths, maps, strict=True)]
        assert size(net) < 1_000_000

    def test_layer_normalisation_by_hand(self) -> None:
        block = DepthwiseBlock(4)
        x = torch.randn(2, 4, 6, 6)
        y = torch.nn.functional.conv2d(x, block.depthwise.weight, block.depthwise.bias, padding=2, groups=4)
        y = (y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True, correction=0) + block.norm.eps).sqrt()
        hidden = torch.einsum("bchw,oc->bohw", y, block.widen.weight) + block.widen.bias.view(1, -1, 1, 1)
        change = torch.einsum("bchw,oc->bohw", torch.nn.functional.gelu(hidden), block.narrow.weight)
        torch.testing.assert_close(block(x), x + change + block.narrow.bias.view(1, -1, 1, 1))

    @pytest.mark.parametrize("name", ["resnet20-gn", "convnet-ln"])
    def test_an_image_does_not_see_its_batch(self, name: str) -> None:
        net, x = built(name).train(), torch.randn(6, 3, 16, 16)
        torch.testing.assert_close(net(x)[:1], net(x[:1]), atol=1e-5, rtol=1e-4)
        assert not list(net.buffers())


class TestBatchNorm:
    def test_it_normalises_and_tracks_like_that_of_pytorch(self) -> None:
        ours, theirs = BatchNorm(3), nn.BatchNorm2d(3)
        for _ in range(3):
            x = 2 * torch.randn(4, 3, 5, 5) + 1
            torch.testing.assert_close(ours(x), theirs(x))
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))

    def test_there_is_no_counter_and_none_is_needed_to_load(self) -> None:
        state = nn.Sequential(nn.BatchNorm2d(3)).state_dict()
        state["0.running_mean"] += 1
        net = nn.Sequential(BatchNorm(3))
        net.load_state_dict(state)
        assert net[0].running_mean.tolist() == [1.0, 1.0, 1.0]
        assert list(net.state_dict()) == ["0.weight", "0.bias", "0.running_mean", "0.running_var"]
        net.load_state_dict(net.state_dict())
        assert "0.num_batches_tracked" in state

    def test_missing_statistics_are_noticed(self) -> None:
        with pytest.raises(RuntimeError, match="running_var"):
            BatchNorm(3).load_state_dict({k: v for k, v in BatchNorm(3).state_dict().items() if k != "running_var"})


class TestInitialWeights:
    def test_kaiming_normal_everywhere(self) -> None:
        net = built("resnet32", classes=100)
        checked = 0
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                fan_in = module.weight[0].numel()
                values = module.weight.flatten()
                spread = math.sqrt(2 / fan_in)
                error = 4 / math.sqrt(len(values))
                assert values.std().item() == pytest.approx(spread, rel=error)
                assert abs(values.mean().item()) < error * spread
                assert values.abs().max().item() > 2.5 * spread  # normal, not uniform
                checked += 1
            if isinstance(module, nn.BatchNorm2d):
                assert bool((module.weight == 1).all())
                assert bool((module.bias == 0).all())
        assert checked == 32

    def test_bias_of_the_head_is_that_of_pytorch(self) -> None:
        bias = built("resnet32", classes=1000).head.bias
        assert isinstance(bias, Tensor)
        bound = 1 / math.sqrt(64)
        assert bias.abs().max() <= bound
        assert bias.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)

    @pytest.mark.parametrize("head", [None, CosineHead])
    def test_a_function_of_the_seed(self, head: Any) -> None:
        first, again, other = (built(seed=seed, head=head).state_dict() for seed in (1, 1, 2))
        for name, value in first.items():
            assert torch.equal(value, again[name])
        assert not torch.equal(first["head.weight"], other["head.weight"])
        assert not torch.equal(first["backbone.group1.conv.weight"], other["backbone.group1.conv.weight"])

    def test_the_generators_of_the_user_are_left_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            pytest.fail("the generators of the GPUs were seeded")

        monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
        state = torch.get_rng_state()
        built()
        assert torch.equal(torch.get_rng_state(), state)
        torch.rand(3)
        after = built(seed=0).head.weight
        assert torch.equal(after, built(seed=0).head.weight)


class TestCosineHead:
    def test_scores_are_cosines(self) -> None:
        head, features = CosineHead(6, 4), 5 * torch.randn(3, 6)
        scores = head(features)
        for i in range(3):
            for c in range(4):
                f, w = features[i].double(), head.weight[c].double()
                assert scores[i, c].item() == pytest.approx((f @ w / (f.norm() * w.norm())).item(), abs=1e-6)

    def test_directions_of_unit_length(self) -> None:
        weight = built("resnet20", classes=100, head=CosineHead).head.weight
        assert isinstance(weight, Tensor)
        torch.testing.assert_close(weight.norm(dim=1), torch.ones(100))
        assert abs(weight.mean().item()) < 0.01
        # Uniform components: none further out than sqrt(3) deviations before the scaling.
        assert (weight.abs().max() / weight.std()).item() < 2.3

    def test_is_exact_under_autocast(self) -> None:
        head, features = CosineHead(64, 10), torch.randn(3, 64)
        plain = head(features)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(head(features), plain)
            assert head(features.bfloat16()).dtype == torch.float32

    def test_keeps_the_digits_of_float64(self) -> None:
        head, features = CosineHead(6, 4), torch.randn(3, 6, dtype=torch.float64)
        cosines = torch.nn.functional.cosine_similarity(features[:, None], head.weight.double()[None], dim=2)
        torch.testing.assert_close(head(features), cosines, rtol=0, atol=1e-12)

    def test_a_zero_feature_scores_zero(self) -> None:
        head, features = CosineHead(5, 3), torch.zeros(2, 5, requires_grad=True)
        scores = head(features)
        assert scores.abs().max() == 0
        scores.sum().backward()
        assert features.grad is not None
        assert bool(features.grad.isfinite().all())


def test_unknown_net() -> None:
    with pytest.raises(ConfigError, match=r"there is no network 'resnet23'\. Did you mean 'resnet"):
        check_net("resnet23")
    with pytest.raises(ConfigError, match="there is no network 'vgg'"):
        built("vgg")
