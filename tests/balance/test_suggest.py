"""Which layers of a model are suggested, and which one is taken for the second group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean import MFW
from procrustean.balance import suggest
from procrustean.base import DataError, LayerError
from procrustean.cli import main


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
    assert "backbone.stages.0  4 x 16 x 16  Sequential          <- group2, second group" in str(found)


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


class Keyed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = plain()

    def forward(self, pixel_values: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        return {"logits": self.net(scale * pixel_values)}


@pytest.mark.parametrize("wrap", [lambda x: {"pixel_values": x}, lambda x: (x, 2.0), lambda x: x])
def test_examples(wrap: Callable[[Tensor], object]) -> None:
    assert suggest(Keyed(), wrap(torch.randn(1, 3, 8, 8))).second_group == "net.1"


def as_tensor(z: Tensor) -> Tensor:
    return z


def in_tuple(z: Tensor) -> tuple[Tensor]:
    return (z,)


def with_attention(z: Tensor) -> tuple[Tensor, Tensor]:
    return z, torch.zeros(len(z), z.shape[1], z.shape[1])


def in_list(z: Tensor) -> list[Tensor | None]:
    return [z, None]


def in_mapping(z: Tensor) -> dict[str, Tensor]:
    return {"hidden": z}


def hidden(output: Any) -> Tensor:
    z: Tensor = output["hidden"] if isinstance(output, dict) else output if isinstance(output, Tensor) else output[0]
    return z


class Attending(nn.Module):
    """A block of a transformer, which hands on its tokens in one form or another."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.norm, self.form = nn.LayerNorm(8), form
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, given: Any) -> Any:
        z = self.norm(hidden(given))
        z = z + self.attention(z, z, z)[0]
        return self.form(z + self.mlp(z))


class SingleLayer(nn.Module):
    """A residual block of one matrix."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.dense, self.form = nn.Linear(8, 8), form

    def forward(self, given: Any) -> Any:
        z = hidden(given)
        return self.form(z + self.dense(z).relu())


class Encoder(nn.Module):
    """Tokens through a list of blocks, as in the models of Hugging Face."""

    def __init__(self, block: Callable[..., nn.Module], form: Callable[[Tensor], Any], blocks: int, norm: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.layer = nn.ModuleList(block(form) for _ in range(blocks))
        self.norm = nn.LayerNorm(8) if norm else None
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.patches(x).flatten(2).mT
        for block in self.layer:
            z = block(z)
        z = hidden(z)
        scores: Tensor = self.head((z if self.norm is None else self.norm(z)).mean(1))
        return scores


@pytest.mark.parametrize(("blocks", "third", "norm"), [(3, 0, True), (12, 3, False)])
@pytest.mark.parametrize(
    ("block", "form", "inside"),
    [
        (Attending, as_tensor, ""),
        (Attending, in_tuple, ""),
        (Attending, with_attention, ""),
        (Attending, in_list, ""),
        (Attending, in_mapping, ".mlp"),
        (SingleLayer, as_tensor, ""),
        (SingleLayer, in_tuple, ""),
        (SingleLayer, in_mapping, ".dense"),
    ],
)
def test_blocks_whatever_they_hold_and_return(
    block: type[nn.Module], form: Callable[[Tensor], Any], inside: str, blocks: int, third: int, norm: bool
) -> None:
    model, x = Encoder(block, form, blocks, norm), torch.randn(2, 3, 16, 16)
    found = suggest(model, x)
    assert found.second_group == f"layer.{third}{inside}"
    assert "blocks without stages: the end of their first third" in found.reason
    assert (f"layer.{third} around it returns nothing that can be mixed" in found.reason) == bool(inside)
    for candidate in suggest(model, x, every=True):
        handle = MFW([500, 400, 20, 10]).attach(model, candidate.name)
        with handle(torch.tensor([0, 2])):
            model(x)
        handle.remove()


class Unit(nn.Module):
    """A convolution with its activation, as plain stacks are often written; with `fork` a block of two paths."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, fork: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.other = nn.Conv2d(outputs, outputs, 1) if fork else None

    def forward(self, given: Any) -> Any:
        z = hidden(given)
        z = self.conv(z).relu()
        return z if self.other is None else (z, self.other(z))


def stack(fork: bool = False) -> nn.Module:
    widths = [(3, 4), (4, 4), (4, 8, 2), (8, 8), (8, 8), (8, 16, 2), (16, 16)]
    return nn.Sequential(*(Unit(*width, fork=fork) for width in widths))


def test_a_plain_stack_of_units_stays_one() -> None:
    found = suggest(stack(), torch.randn(2, 3, 16, 16))
    assert (found.second_group, found.reason) == ("4", "no blocks: the end of the second group of plain layers")


def test_blocks_of_several_features_are_read_by_stages_and_by_their_layers() -> None:
    """Of two paths, as in a dual path network, mixing one would leave the other as it is."""
    found = suggest(stack(fork=True), torch.randn(2, 3, 16, 16))
    assert found.second_group == "1.other"
    assert found.reason == "the end of the first stage of blocks; 1 around it returns nothing that can be mixed"


def test_errors() -> None:
    with pytest.raises(DataError, match="an example of type int received"):
        suggest(plain(), 3)
    with pytest.raises(LayerError, match=r"ReLU has no layer that is called once.*mfw\(z, labels\)"):
        suggest(nn.ReLU(), torch.randn(2, 3))


class TestCommand:
    def test_own_networks(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list", "layers", "small", "--size", "8", "--channels", "1"]) == 0
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
        for module in ("my_net_module", "my_net_module.py", f"{tmp_path}/my_net_module.py"):
            assert main(["list", "layers", f"{module}:make", "--size", "16"]) == 0
            assert "1  5 x 12 x 12  Conv2d   <- group2, second group" in capsys.readouterr().out
            for factory, message in {
                "needs": "'what'",
                "wrong": "int, not a torch.nn.Module",
                "mak": "'mak'",
            }.items():
                assert main(["list", "layers", f"{module}:{factory}"]) == 2
                assert message in capsys.readouterr().err
        assert main(["list", "layers", "my_net_module.py"]) == 2
        assert "a file without the name of what to use in it; write my_net_module.py:make" in capsys.readouterr().err
        assert main(["list", "layers", "my_net_module:make", "--channels", "1"]) == 2
        assert "say what it takes with --size and --channels" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            ("resnet33", "Did you mean 'resnet32'"),
            ("no_such_package.models:net", "No module named 'no_such_package'"),
            ("no_such_file.py:net", "network 'no_such_file.py': there is no file "),
            ("no_such_file.py", "network 'no_such_file.py': there is no file "),
        ],
    )
    def test_unknown_models(self, model: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list", "layers", model]) == 2
        assert message in capsys.readouterr().err
