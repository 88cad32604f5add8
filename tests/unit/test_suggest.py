"""Which layers of a model are suggested, and which one is taken for the second group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from procrustean import MFW
from procrustean.cli import main
from procrustean.errors import DataError, LayerError
from procrustean.layers import suggest
from procrustean.nets import NETS, build_net


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x).relu())
        return out


class Backbone(nn.Module):
    """A stem of several convolutions, two stages of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
        self.stages = nn.ModuleList([nn.Sequential(Block(4, 4), Block(4, 4)), nn.Sequential(Block(4, 8, 2))])
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.begin(x)
        for stage in self.stages:
            x = self.act(stage(x))
        return x


class Wrapped(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(4))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.backbone(x))
        return scores


class Tokens(nn.Module):
    """Six blocks of a transformer."""

    def __init__(self, blocks: int = 6) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(blocks)))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.blocks(self.embed(x).flatten(2).mT)
        scores: Tensor = self.head(z.mean(1))
        return scores


def plain() -> nn.Module:
    def group(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    return nn.Sequential(group(3, 4), group(4, 8), group(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


def row() -> nn.Module:
    """Convolutions, activations and pools in one row, as in VGG."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 4), (4, 4), (4, 8), (8, 8)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if inputs == outputs else []
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(4))


def vectors() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


@pytest.mark.parametrize(
    ("make", "second", "reason"),
    [
        (lambda: Wrapped(Backbone()), "backbone.stages.0", "first stage of blocks"),
        (lambda: Wrapped(Wrapped(Backbone()).backbone), "backbone.stages.0", "first stage of blocks"),
        (Backbone, "stages.0", "first stage of blocks"),
        (Tokens, "blocks.1", "first third"),
        (lambda: Tokens(12), "blocks.3", "first third"),
        (lambda: Tokens(2), "blocks.1", "first stage of blocks"),
        (plain, "1", "second group of plain layers"),
        (row, "8", "second group of plain layers"),
        (vectors, "4", "second group of plain layers"),
    ],
)
def test_the_second_group(make: Callable[[], nn.Module], second: str, reason: str) -> None:
    model, x = make(), torch.randn(2, 3, 16, 16)
    found = suggest(model, x)
    assert found.second_group == second
    assert reason in found.reason
    assert second in [candidate.name for candidate in found]
    # Whatever is suggested can be attached to.
    for candidate in suggest(model, x, every=True):
        handle = MFW([500, 400, 20, 10]).attach(model, candidate.name)
        with handle(torch.tensor([0, 2])):
            model(x)
        handle.remove()


def test_shapes_in_the_order_of_the_forward_pass() -> None:
    found = suggest(Wrapped(Backbone()), torch.randn(2, 3, 16, 16))
    assert [(c.name, c.shape) for c in found] == [
        ("backbone.begin", (2, 4, 16, 16)),
        ("backbone.stages.0", (2, 4, 16, 16)),
        ("backbone.stages.1", (2, 8, 8, 8)),
        ("head.0", (2, 8, 1, 1)),
    ]
    assert "backbone.stages.0  4 x 16 x 16  Sequential          <- second group" in str(found)


def test_a_layer_that_is_called_twice_is_not_suggested() -> None:
    every = [c.name for c in suggest(Backbone(), torch.randn(2, 3, 8, 8), every=True)]
    assert "act" not in every
    assert "stages.0.1.second" in every


def test_the_model_stays_as_it_was() -> None:
    model = plain()
    model[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    suggest(model, torch.randn(2, 3, 8, 8))
    assert modes == [module.training for module in model.modules()]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", NETS)
def test_published_layers(name: str) -> None:
    found = suggest(build_net(name, channels=3, classes=4, seed=0), torch.randn(2, 3, 32, 32))
    assert found.second_group == "group2"
    assert found.reason == "published by the network"
    assert [c.name for c in found][:3] == ["input", "group1", "group2"]


class Keyed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = plain()

    def forward(self, pixel_values: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        return {"logits": self.net(scale * pixel_values)}


@pytest.mark.parametrize("wrap", [lambda x: {"pixel_values": x}, lambda x: (x, 2.0), lambda x: x])
def test_examples(wrap: Callable[[Tensor], object]) -> None:
    assert suggest(Keyed(), wrap(torch.randn(1, 3, 8, 8))).second_group == "net.1"


class Pair(nn.Module):
    """A block that returns more than a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Block(4, 4)
        self.more = Block(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.more(x + self.inner(x)), None


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Conv2d(3, 4, 1)
        self.pairs = nn.ModuleList([Pair(), Pair()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.begin(x)
        for pair in self.pairs:
            x, _ = pair(x)
        return x


def test_blocks_that_return_tuples_are_named_in_the_reason() -> None:
    found = suggest(Pairs(), torch.randn(2, 3, 8, 8))
    assert found.second_group.startswith("pairs.")
    assert "pairs.0 around it returns no single tensor" in found.reason


def test_errors() -> None:
    with pytest.raises(DataError, match="an example of type int received"):
        suggest(plain(), 3)
    with pytest.raises(DataError, match=r"cannot be run on an example of shape \(3, 32, 32\) .*image\[None\]"):
        suggest(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), torch.zeros(3, 32, 32))
    with pytest.raises(LayerError, match=r"ReLU has no layer that is called once.*mfw\(z, labels\)"):
        suggest(nn.ReLU(), torch.randn(2, 3))


class TestCommand:
    def test_own_networks(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layers", "small", "--size", "8", "--channels", "1"]) == 0
        shown = capsys.readouterr().out
        assert "group2  32 x 4 x 4  ConvNormReLU   <- second group" in shown

    def test_a_factory_in_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "my_net_module.py").write_text(
            "from torch import nn\n\n\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3))\n"
            "\n\ndef needs(what):\n    return what\n\n\ndef wrong():\n    return 3\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert main(["layers", "my_net_module:make", "--size", "16"]) == 0
        assert "1  5 x 12 x 12  Conv2d   <- second group" in capsys.readouterr().out
        for factory, message in {
            "needs": "cannot be called without arguments",
            "wrong": "made a int, not a torch.nn.Module",
            "mak": "has no 'mak'. Did you mean 'make'",
        }.items():
            assert main(["layers", f"my_net_module:{factory}"]) == 2
            assert message in capsys.readouterr().err
        assert main(["layers", "my_net_module:make", "--channels", "1"]) == 2
        assert "say what it takes with --size and --channels" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            ("resnet33", "Did you mean 'resnet32'"),
            ("no_such_package.models:net", "there is no module 'no_such_package.models'"),
        ],
    )
    def test_unknown_models(self, model: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layers", model]) == 2
        assert message in capsys.readouterr().err


class SequenceFirst(nn.Module):
    """Patches to tokens, which go through the encoder with the batch as their second dimension."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head, self.batch_first = nn.Linear(16, 4), batch_first

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2)
        tokens = self.encoder(tokens.permute(0, 2, 1) if self.batch_first else tokens.permute(2, 0, 1))
        return self.head(tokens.mean(1 if self.batch_first else 0))


def test_layers_of_sequences_that_have_the_batch_second_are_named() -> None:
    found = suggest(SequenceFirst(batch_first=False), torch.randn(2, 3, 16, 16))
    assert [candidate.name for candidate in found] == ["patches"]
    assert found.left_out == ("encoder",)
    assert "Left out: encoder; the batch is the second dimension" in str(found)
    whole = suggest(SequenceFirst(batch_first=True), torch.randn(2, 3, 16, 16))
    assert whole.left_out == ()
    assert "Left out" not in str(whole)
