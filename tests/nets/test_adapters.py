"""Adapters: nothing changes when they are put in, and they alone learn."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Classify
from procrustean.base import ConfigError
from procrustean.data.recipe import Adapter
from procrustean.engine.stage_training import freeze_all_but
from procrustean.methods import Stage
from procrustean.nets import Classifier, build_net
from procrustean.nets.adapters import adapter_of, add_adapter

KINDS: tuple[Adapter, ...] = ("lora", "scale_shift", "bitfit")


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A vision transformer of transformers, small and with random weights."""
    from transformers import ViTConfig

    folder = tmp_path_factory.mktemp("vit")
    ViTConfig(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4
    ).save_pretrained(folder)
    return f"hf:{folder}"


def network(name: str) -> Classifier:
    return build_net(name, channels=3, classes=4, seed=0, size=(16, 16))


def adapted(name: str, kind: Adapter) -> tuple[Classifier, tuple[str, ...]]:
    if kind == "lora":
        pytest.importorskip("peft")
    net = network(name)
    with torch.random.fork_rng():
        return net, (*(f"backbone.{path}" for path in add_adapter(net.backbone, kind, rank=2)), "head")


@pytest.fixture
def images() -> Tensor:
    return torch.randn(8, 3, 16, 16)


@pytest.mark.parametrize("kind", KINDS)
class TestTransformer:
    def test_scores_are_the_same_at_first(self, kind: Adapter, vit: str, images: Tensor) -> None:
        net, _ = adapted(vit, kind)
        torch.testing.assert_close(net.eval()(images), network(vit).eval()(images))

    def test_the_paths_are_what_a_stage_takes(self, kind: Adapter, vit: str, images: Tensor) -> None:
        net, paths = adapted(vit, kind)
        learning = freeze_all_but(net, Stage(Classify(), trainable=paths).trainable)
        kinds = {"lora": {"weight"}, "scale_shift": {"scale", "shift"}, "bitfit": {"bias"}}[kind]
        assert {name.rpartition(".")[2] for name in learning if name.startswith("backbone.")} == kinds
        share = sum(net.get_parameter(name).numel() for name in learning) / sum(p.numel() for p in net.parameters())
        assert 0 < share < 0.35
        before = {name: p.detach().clone() for name, p in net.named_parameters()}
        optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.03)
        labels = torch.arange(8) % 4
        images = images + 20 * torch.randn(4, 3, 1, 1)[labels]  # a colour for each class
        losses = []
        for _ in range(30):
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.9 * losses[0]
        changed = {name for name, p in net.named_parameters() if not torch.equal(p, before[name])}
        assert changed <= set(learning)
        # Attention is the same whatever is added to all keys, so their biases need not change.
        assert all("k_proj" in name for name in set(learning) - changed)

    def test_weights_go_into_a_network_with_the_same_adapter(self, kind: Adapter, vit: str, images: Tensor) -> None:
        net, paths = adapted(vit, kind)
        with torch.no_grad():
            for path in paths[:-1]:
                net.get_parameter(path).add_(torch.randn(()))
        again, _ = adapted(vit, kind)
        again.load_state_dict(net.state_dict())
        twin = copy.deepcopy(net)
        for other in (again, twin):
            assert torch.equal(other.eval()(images), net.eval()(images))


class Encoder(nn.Module):
    """PyTorch's own layers, which use the weights of layers within them without calling these."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.first = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16, elementwise_affine=False)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.first(self.patches(x).flatten(2).mT)
        scores: Tensor = self.last(self.norm(self.attention(tokens, tokens, tokens)[0]).mean(1))
        return scores


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_is_what_computes(kind: Adapter, images: Tensor) -> None:
    if kind == "lora":
        pytest.importorskip("peft")
    net = Encoder()
    paths = add_adapter(net, kind, rank=2)
    learning = [net.get_parameter(path) for path in paths]
    torch.autograd.grad(net(images).square().sum(), learning)  # raises where one is not used
    with torch.no_grad():
        for parameter in learning:
            parameter.add_(0.1 * torch.randn_like(parameter))
        taught = net(images)
        torch.testing.assert_close(net.eval()(images), taught)


class Norm2d(nn.LayerNorm):
    """Normalises maps by their channels, as timm's LayerNorm2d."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def test_channels_of_maps() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), Norm2d(4))
    add_adapter(net, "scale_shift")
    with torch.no_grad():
        net[1].scale[2], net[1].shift[2] = 0, 7
    maps = net(torch.randn(2, 3, 6, 6))
    assert [bool((maps[:, channel] == 7).all()) for channel in range(4)] == [False, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_networks_without_attention(kind: Adapter) -> None:
    with pytest.raises(ConfigError, match=f"'{kind}' received, but resnet20 has no attention.*--tune head or all"):
        adapter_of(network("resnet20").backbone, kind, "resnet20", print)


def test_nothing_to_work_on() -> None:
    with pytest.raises(ConfigError, match="'bitfit' received, but it finds no layers to work on in mine"):
        adapter_of(nn.MultiheadAttention(4, 2, bias=False), "bitfit", "mine", print)


def test_without_peft(vit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match=r"LoRA needs peft; install it .*'\.\[adapters\]'"):
        add_adapter(network(vit).backbone, "lora")
