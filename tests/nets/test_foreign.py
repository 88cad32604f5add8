"""Networks of timm and torchvision: groups, features, randomness, refusals."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Problem, suggest
from procrustean.base import ConfigError, LayerError, optional_libraries
from procrustean.methods import make_method
from procrustean.nets import Classifier, build_net
from procrustean.nets.build import check_net, layers_of, model_by_name, restart
from procrustean.nets.classifier import check_size
from procrustean.nets.foreign import foreign_backbone
from procrustean.nets.noise import Dropout, DropPath

pytestmark = pytest.mark.usefixtures("timm")


def built(name: str, *, classes: int = 5, seed: int = 0, size: tuple[int, int] = (32, 32), **more: Any) -> Classifier:
    return build_net(name, **{"channels": 3, "classes": classes, "seed": seed, "size": size, **more})


GROUPS = {
    "timm:resnet18": ["maxpool", "layer1", "layer2", "layer3", "layer4"],
    "timm:convnext_atto": ["stem", "stages.0", "stages.1", "stages.2", "stages.3"],
    "timm:mobilenetv3_small_050": ["bn1", "blocks.0", "blocks.1", "blocks.3", "blocks.4"],
    "timm:regnetx_002": ["stem", "s1", "s2", "s3", "s4"],
    "timm:vit_tiny_patch16_224": ["norm_pre", "blocks.3", "blocks.7", "blocks.11"],
    "timm:mixer_s16_224": ["stem", "blocks.2", "blocks.5", "blocks.7"],
    "timm:dla34": ["level1", "level2", "level3", "level4", "level5"],
    "torchvision:vgg11_bn": [f"features.{n}" for n in (2, 6, 13, 20, 27)],
    "torchvision:mobilenet_v3_small": [f"features.{n}" for n in (0, 1, 3, 6, 8, 11)],
    "torchvision:resnet18": ["maxpool", "layer1", "layer2", "layer3", "layer4"],
    "torchvision:shufflenet_v2_x0_5": ["maxpool", "stage2", "stage3", "stage4"],
    "torchvision:regnet_y_400mf": ["stem", *(f"trunk_output.block{n}" for n in (1, 2, 3, 4))],
}


@pytest.fixture
def no_initial_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what depends on the layers alone, with equal weights; drawing those of a large network takes seconds."""
    for name in ("normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_uniform_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor.detach().fill_(0.01))


class TestGroups:
    @pytest.mark.usefixtures("no_initial_weights")
    @pytest.mark.parametrize("name", GROUPS)
    def test_the_stem_and_the_stages(self, name: str) -> None:
        net = built(name, size=(64, 64))
        assert list(net.backbone.groups.values()) == ["input", *(f"net.{path}" for path in GROUPS[name])]
        seen: list[str] = []
        for group, path in net.mixable.items():

            def note(module: nn.Module, args: Any, output: Any, group: str = group) -> None:
                assert isinstance(output, Tensor)
                assert output.shape[0] == 2
                seen.append(group)

            net.get_submodule(path).register_forward_hook(note)
        x = torch.randn(2, 3, 64, 64)
        scores = net(x)
        assert scores.shape == (2, 5)
        assert seen == list(net.mixable)  # each is passed, in this order
        gradients = torch.autograd.grad(scores.sum(), list(net.parameters()))  # refuses parameters that are not used
        with torch.no_grad():
            assert net.backbone(x).shape == (2, net.backbone.features)
        assert all(bool(g.isfinite().all()) for g in gradients)

    @pytest.mark.usefixtures("no_initial_weights")
    @pytest.mark.parametrize("name", [*GROUPS, "torchvision:vit_b_16"])
    def test_the_second_group_is_that_which_is_suggested(self, name: str) -> None:
        model, side = model_by_name(name)
        found = suggest(model.to("meta"), torch.empty(2, 3, side, side, device="meta"))
        assert foreign_backbone(name).groups["group2"] == f"net.{found.second_group}"

    def test_a_network_that_cannot_be_read_says_how_to_name_a_layer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*given: object) -> None:
            raise LayerError("no layer")

        monkeypatch.setattr(sys.modules["procrustean.nets.foreign"], "suggest", fail)
        net = built("timm:resnet10t")
        assert list(net.mixable) == ["input"]
        objective = make_method("mfw", Problem((20, 5), "step")).stages[0].objective
        with pytest.raises(ConfigError, match=r"mixes at input\. .*named by its path$"):
            objective.bind(net)

    @pytest.mark.usefixtures("no_initial_weights")
    def test_stages_of_the_other_families_exist(self) -> None:
        for name in ("densenet121", "convnext_tiny", "efficientnet_b0", "alexnet"):
            net = foreign_backbone(f"torchvision:{name}")
            assert len(net.groups) >= 4
            assert all(net.get_submodule(path) is not None for path in net.groups.values())


class TestNumbers:
    def test_weights_are_a_function_of_the_seed(self) -> None:
        one, same, other = (built("timm:resnet10t", seed=seed).state_dict() for seed in (0, 0, 1))
        before = torch.get_rng_state()
        layers_of("timm:resnet10t")
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(one[key], same[key]) for key in one)
        assert not torch.equal(one["backbone.net.conv1.0.weight"], other["backbone.net.conv1.0.weight"])

    def test_grey_images(self) -> None:
        assert built("timm:resnet10t", channels=1)(torch.randn(2, 1, 32, 32)).shape == (2, 5)
        with pytest.raises(ConfigError, match="torchvision:resnet18 takes images of 3 channels, and these have 1"):
            built("torchvision:resnet18", channels=1)

    def test_what_drops_at_random_is_replaced(self) -> None:
        net = built("torchvision:mobilenet_v3_small")
        assert not [m for m in net.modules() if type(m) is nn.Dropout]
        (dropout,) = [m for m in net.modules() if isinstance(m, Dropout)]
        assert dropout.rate == pytest.approx(0.2)
        depths = [m for m in foreign_backbone("torchvision:efficientnet_b0").modules() if isinstance(m, DropPath)]
        assert depths[-1].rate == pytest.approx(0.2 * 15 / 16)
        x = torch.randn(2, 3, 32, 32)
        before = torch.get_rng_state()
        one, other = net(x), net(x)
        assert torch.equal(torch.get_rng_state(), before)
        assert not torch.equal(one, other)

    def test_restarting_builds_it_anew(self) -> None:
        net = built("timm:convnext_atto")
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.fill_(7)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            restart(net)
            torch.manual_seed(3)
            fresh = foreign_backbone("timm:convnext_atto", size=(32, 32)).state_dict()
        assert all(torch.equal(value, fresh[key]) for key, value in net.backbone.state_dict().items())
        assert not (net.head.weight == 7).any()


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("timm:convnext_tny", "timm has no network 'convnext_tny'. Did you mean 'convnext_tiny'"),
            ("torchvision:resnet19", "torchvision has no classifier 'resnet19'. Did you mean 'resnet1"),
            ("torchvision:fasterrcnn_resnet50_fpn", "torchvision has no classifier"),
            ("torchvision:zzz", r"The nearest of the \d+ there are: '\w+', '\w+', '\w+'\.$"),
            ("keras:resnet50", "before the colon stands the library it comes from: timm or torchvision"),
        ],
    )
    def test_names(self, name: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            check_net(name)

    def test_a_network_without_a_linear_layer(self) -> None:
        with pytest.raises(ConfigError, match="squeezenet1_0 has no linear layer"):
            built("torchvision:squeezenet1_0")

    @pytest.mark.parametrize(
        ("name", "size", "message"),
        [
            ("timm:test_convnext", (16, 16), "cannot take images of 16 x 16 pixels: .*Kernel size"),
            ("resnet12", (8, 8), "the network resnet12 cannot take images of 8 x 8 pixels"),
        ],
    )
    def test_image_sizes(self, name: str, size: tuple[int, int], message: str) -> None:
        net = built(name, size=size)
        with pytest.raises(ConfigError, match=message):
            check_size(net, 3, size, name)
        assert next(net.parameters()).device.type == "cpu"

    @pytest.mark.filterwarnings("ignore")
    def test_a_network_with_several_outputs(self) -> None:
        with pytest.raises(
            ConfigError, match="googlenet gives GoogLeNetOutputs for two images instead of two features"
        ):
            check_size(built("torchvision:googlenet"), 3, (64, 64), "torchvision:googlenet")

    def test_sizes_it_can_take(self) -> None:
        for name, size in (("timm:vit_tiny_patch16_224", (48, 32)), ("resnet12", (16, 16)), ("resnet50", (8, 8))):
            check_size(built(name, size=size), 3, size, name)

    @pytest.mark.parametrize("method", ["bbn", "oltr"])
    def test_methods_that_take_networks_apart(self, method: str) -> None:
        made = make_method(method, Problem((20, 5), "step"))
        reshape = made.stages[-1].reshape
        assert reshape is not None
        with pytest.raises(ConfigError, match=r"only this library.s networks can be taken apart"):
            reshape(built("timm:resnet10t"))

    def test_a_library_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(name: str) -> ModuleType:
            raise ModuleNotFoundError("no such thing", name=name)

        monkeypatch.setattr(optional_libraries, "import_module", fail)
        with pytest.raises(ConfigError, match=r"a network of timm needs timm; install it.*'\.\[nets\]'"):
            check_net("timm:resnet18")
