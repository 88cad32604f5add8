"""The larger networks: sizes, names and outputs of the published ones, stems, groups, initial weights."""

from __future__ import annotations

import itertools
import math
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.nets import Classifier, build_net
from procrustean.nets.build import layers_of
from procrustean.nets.densenet import DenseBlock, Transition
from procrustean.nets.pretrained import load_pretrained
from procrustean.nets.resnet import Basic, Bottleneck, ResNet, ResNet12, WideBlock

#: Ours -> torchvision's.
PUBLISHED = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnext50": "resnext50_32x4d",
    "densenet121": "densenet121",
}


def built(name: str, classes: int = 10, **settings: Any) -> Classifier:
    return build_net(name, channels=3, classes=classes, seed=0, **settings)


def size(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def maps(net: Classifier, x: Tensor) -> dict[str, tuple[int, ...]]:
    """Shape of the output of every published layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, path in net.mixable.items():

        def note(module: nn.Module, args: Any, output: Tensor, name: str = name) -> None:
            shapes[name] = tuple(output.shape[1:])

        net.get_submodule(path).register_forward_hook(note)
    net.eval()(x)
    return shapes


class TestPublished:
    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("resnet10", 5_418_792),
            ("resnet18", 11_689_512),
            ("resnet50", 25_557_032),
            ("resnext50", 25_028_904),
            ("densenet121", 7_978_856),
        ],
    )
    def test_number_of_parameters(self, name: str, parameters: int) -> None:
        net = layers_of(name)
        assert size(net) + 1000 * (net.features + 1) == parameters
        # The stems for small images differ in nothing but the kernel of the first convolution: 3 x 3 for 7 x 7.
        for stem in ("-s1", "-s2"):
            assert size(layers_of(name + stem)) == size(net) - 3 * 64 * (49 - 9)

    def test_number_of_parameters_of_the_convnet(self) -> None:
        widths = (3, 32, 64, 128, 128, 256)
        wanted = sum((9 * inputs + 2) * outputs for inputs, outputs in itertools.pairwise(widths))
        assert size(layers_of("convnet")) == wanted

    def test_number_of_parameters_of_resnet12(self) -> None:
        wanted, inputs = 0, 3
        for outputs in (64, 160, 320, 640):
            wanted += 9 * outputs * (inputs + 2 * outputs) + inputs * outputs  # three convolutions and the shortcut
            wanted += 4 * 2 * outputs  # their normalisation
            inputs = outputs
        assert size(layers_of("resnet12")) == size(layers_of("resnet12-plain")) == wanted
        assert wanted == 12_424_320

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_weights_of_torchvision_load_and_give_its_scores(self, name: str, torchvision: ModuleType) -> None:
        theirs = torchvision.models.get_model(PUBLISHED[name], num_classes=10)
        ours = built(name)
        for module in theirs.modules():  # statistics that matter
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.1, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        load_pretrained(ours.backbone, theirs.state_dict())
        ours.head.load_state_dict(list(theirs.children())[-1].state_dict())
        assert size(ours) == size(theirs)
        x = torch.randn(2, 3, 64, 64)
        with torch.no_grad():
            torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
            torch.testing.assert_close(ours.train()(x), theirs.train()(x), atol=1e-4, rtol=1e-4)

    def test_resnet10_is_torchvisions_with_one_block_per_stage(self, torchvision: ModuleType) -> None:
        resnet = torchvision.models.resnet
        theirs = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1])
        ours = layers_of("resnet10")
        shapes = {k: v.shape for k, v in theirs.state_dict().items() if "fc." not in k and "num_batches" not in k}
        assert {k: v.shape for k, v in ours.state_dict().items()} == shapes

    def test_the_file_of_densenet_has_older_names(self) -> None:
        net = layers_of("densenet121")
        assert net.published_name("features.denseblock1.denselayer12.norm.1.weight") == (
            "denseblock1.denselayer12.norm1.weight"
        )
        assert net.published_name("features.denseblock1.denselayer2.conv.2.weight") == (
            "denseblock1.denselayer2.conv2.weight"
        )
        assert net.published_name("features.transition1.norm.weight") == "transition1.norm.weight"
        assert net.published_name("features.norm5.bias") == "norm5.bias"


class TestGroups:
    """The paper's second group: the first stage, behind the stem; the second block of ResNet-12, which has no stem."""

    @pytest.mark.parametrize(
        ("name", "group1", "group2", "last"),
        [
            ("resnet18", (64, 16, 16), (64, 16, 16), (512, 2, 2)),
            ("resnet18-s2", (64, 32, 32), (64, 32, 32), (512, 4, 4)),
            ("resnet18-s1", (64, 64, 64), (64, 64, 64), (512, 8, 8)),
            ("resnet10", (64, 16, 16), (64, 16, 16), (512, 2, 2)),
            ("resnet50", (64, 16, 16), (256, 16, 16), (2048, 2, 2)),
            ("resnext50-s2", (64, 32, 32), (256, 32, 32), (2048, 4, 4)),
            ("resnet12", (64, 32, 32), (160, 16, 16), (640, 4, 4)),
            ("densenet121", (64, 16, 16), (256, 16, 16), (1024, 2, 2)),
            ("densenet121-s1", (64, 64, 64), (256, 64, 64), (1024, 8, 8)),
        ],
    )
    def test_feature_maps_of_64_pixels(
        self, name: str, group1: tuple[int, ...], group2: tuple[int, ...], last: tuple[int, ...]
    ) -> None:
        net = Classifier(layers_of(name), nn.Identity())
        found = maps(net, torch.empty(2, 3, 64, 64, device="meta"))
        assert list(found) == list(net.mixable)
        assert found["input"] == (3, 64, 64)
        assert (found["group1"], found["group2"], list(found.values())[-1]) == (group1, group2, last)
        assert net.second_group == "group2"
        assert last[1] * net.backbone.shrinks == 64

    def test_the_second_group_of_each(self) -> None:
        second = {
            name: layers_of(name).groups["group2"] for name in ("resnet10", "resnext50", "resnet12", "densenet121")
        }
        assert second == {
            "resnet10": "layer1", "resnext50": "layer1", "resnet12": "layer2", "densenet121": "denseblock1",
        }  # fmt: skip

    def test_building_one_to_look_at_it_draws_nothing(self) -> None:
        before = torch.get_rng_state()
        layers_of("resnet12")
        layers_of("densenet121-s1")
        assert torch.equal(torch.get_rng_state(), before)


def small_resnet(bottleneck: bool) -> ResNet:
    return ResNet(bottleneck=bottleneck, blocks=(1, 2, 1, 1), width=8).eval()


class TestBlocks:
    @pytest.mark.parametrize(("bottleneck", "convolution"), [(False, "conv1"), (True, "conv2")])
    def test_strides_lie_on_the_first_3_x_3_convolution_of_a_stage(self, bottleneck: bool, convolution: str) -> None:
        net = small_resnet(bottleneck)
        strides = [(n, m.stride[0]) for n, m in net.named_modules() if isinstance(m, nn.Conv2d) and m.stride[0] > 1]
        halved = [f"layer{n}.0" for n in (2, 3, 4)]
        assert dict(strides) == {"conv1": 2, **{f"{b}.{c}": 2 for b in halved for c in (convolution, "downsample.0")}}

    def test_basic_by_hand(self) -> None:
        block, x = Basic(4, 8, 2, 1, 64).eval(), torch.randn(2, 4, 6, 6)
        y = block.bn2(block.conv2(block.bn1(block.conv1(x)).clamp_min(0)))
        assert block.downsample is not None
        torch.testing.assert_close(block(x), (y + block.downsample(x)).clamp_min(0))
        assert Basic(8, 8, 1, 1, 64).downsample is None

    def test_groups_of_a_resnext(self) -> None:
        block = Bottleneck(64, 64, 1, cardinality=32, group_width=4)
        assert (block.conv2.groups, block.conv2.in_channels, block.conv3.out_channels) == (32, 128, 256)

    def test_a_block_of_resnet12_by_hand(self) -> None:
        block, x = WideBlock(3, 8, nn.Identity()).eval(), torch.randn(2, 3, 6, 6)

        def leaky(z: Tensor) -> Tensor:
            return torch.where(z > 0, z, 0.1 * z)

        y = leaky(block.bn1(block.conv1(x)))
        y = block.bn3(block.conv3(leaky(block.bn2(block.conv2(y)))))
        assert block.downsample is not None
        y = leaky(y + block.downsample(x)).unflatten(3, (3, 2)).unflatten(2, (3, 2)).amax((3, 5))
        torch.testing.assert_close(block(x), y)

    def test_a_dense_block_keeps_all_it_has_seen(self) -> None:
        block, x = DenseBlock(6, 4, 3).eval(), torch.randn(2, 6, 5, 5)
        z = block(x)
        assert z.shape[1] == block.outputs == 6 + 3 * 4
        assert torch.equal(z[:, :6], x)
        first, second, _ = block.children()
        assert torch.equal(z[:, 6:10], first(x))
        assert torch.equal(z[:, 10:14], second(z[:, :10]))

    def test_a_transition_halves_channels_and_side(self) -> None:
        assert Transition(10)(torch.randn(2, 10, 6, 6)).shape == (2, 5, 3, 3)


class TestInitialWeights:
    @pytest.mark.parametrize(("name", "fan"), [("resnet18-s1", "out"), ("resnet12", "out"), ("densenet121", "in")])
    def test_convolutions_are_kaiming_normal(self, name: str, fan: str) -> None:
        checked = 0
        for module in built(name).modules():
            if isinstance(module, nn.Conv2d) and module.weight.numel() > 5000:
                weight = module.weight
                field = weight[0, 0].numel() * (weight.shape[0] if fan == "out" else weight.shape[1])
                assert weight.std().item() == pytest.approx(math.sqrt(2 / field), rel=0.05)
                checked += 1
        assert checked > 5

    def test_heads(self) -> None:
        bound = 1 / math.sqrt(512)
        weight = built("resnet18", classes=100).head.weight
        assert isinstance(weight, Tensor)
        assert weight.abs().max() <= bound  # as PyTorch makes linear layers: uniform
        bias = built("densenet121").head.bias
        assert isinstance(bias, Tensor)
        assert not bias.any()

    def test_a_function_of_the_seed_down_to_the_noise(self) -> None:
        one, same, other = (build_net("resnet12", channels=3, classes=5, seed=seed).state_dict() for seed in (0, 0, 1))
        assert all(torch.equal(one[key], same[key]) for key in one)
        for key in ("backbone.layer1.0.conv1.weight", "backbone.layer1.0.drop.key", "backbone.layer4.0.drop.key"):
            assert not torch.equal(one[key], other[key])

    def test_channels(self) -> None:
        for name in ("resnet10-s1", "resnet12", "densenet121"):
            assert build_net(name, channels=1, classes=4, seed=0)(torch.randn(2, 1, 32, 32)).shape == (2, 4)

    def test_resnet12_drops_only_where_it_is_told_to(self) -> None:
        x = torch.randn(4, 3, 32, 32)
        widths = (4, 4, 4, 4)
        plain = ResNet12(drops=False, widths=widths)
        assert torch.equal(plain(x), plain(x))
        drops = ResNet12(widths=widths)
        assert not torch.equal(drops(x), drops(x))
        assert torch.equal(drops.eval()(x), drops(x))
