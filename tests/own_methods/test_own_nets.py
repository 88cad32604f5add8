"""Networks of one's own: in files through every command, and handed over in Python."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from procrustean.base import ConfigError, use_file
from procrustean.deploy import load_model
from procrustean.nets import build_net, use_net
from procrustean.runs import evaluate, fit, resume

Call = Callable[..., Any]

NETS = """
from torch import nn


class Tiny(nn.Module):
    def __init__(self, channels, classes, width=8):
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, padding=1, stride=2)
        self.body = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, stride=2), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.scores = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.scores(self.drop(self.body(self.stem(x)).mean((2, 3))))


def softened(channels, classes):
    return nn.Sequential(Tiny(channels, classes), nn.Softmax(1))


def for_ten(channels):
    return Tiny(channels, 10)


def no_linear(channels, classes):
    return nn.Sequential(nn.Conv2d(channels, classes, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def raises(classes):
    return {}[classes]
"""


@pytest.fixture(autouse=True)
def own(work: Path) -> None:
    Path("nets.py").write_text(NETS)


@pytest.fixture
def few(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "net": "nets.py:Tiny"}


def tiny_module() -> nn.Module:
    space: dict[str, Any] = {}
    exec(NETS, space)
    module: nn.Module = space["Tiny"](1, 4)
    return module


def test_all_commands_once(call: Call, npz: str) -> None:
    small = ("--epochs", "2", "--batch-size", "16", "--lr", "0.05", "--device", "cpu", "--quiet")
    commands = {
        "train": ("train", npz, "--net", "nets.py:Tiny", "--method", "mfw", *small, "--run-dir", "run"),
        "evaluate": ("evaluate", "run", "--net", "nets.py"),
        "adjust": ("evaluate", "run", "--adjust", "--net", "nets.py"),
        "export": ("export", "run", "--net", "nets.py", "--output", "exported"),
        "predict": ("predict", "exported", "pixels", "--net", "nets.py", "--output", "predictions.csv"),
        "compare": ("compare", "run"),
        "diagnose": ("diagnose", "run", "--method", "nets.py", "--output", "diagnosed"),
        "report": ("report", "run", "--output", "page.html", "--quiet"),
        "layers": ("list", "layers", "nets.py:Tiny", "--size", "16"),
    }
    from PIL import Image

    Path("pixels").mkdir()
    Image.new("L", (8, 8)).save("pixels/one.png")
    for name, words in commands.items():
        answer = call(*words)
        assert answer.code == 0, (name, answer.err)
        if name == "train":
            before = Path("run/model.safetensors").read_bytes()
    config = json.loads(Path("run/config.json").read_text())["config"]
    assert config["net"].startswith("nets.py:Tiny@")
    Path("run/result.json").unlink()  # as if it had stopped at its last checkpoint
    assert "resume run --net nets.py" in call("train", *commands["train"][1:]).err
    assert call("resume", "run", "--net", "nets.py", "--quiet").code == 0
    assert Path("run/model.safetensors").read_bytes() == before
    refused = call("evaluate", "run")
    assert (refused.code, "Name it: --net nets.py" in refused.err) == (2, True)


def test_an_export_is_run_by_its_program_and_its_thresholds(
    call: Call,
    npz: str,
    few: dict[str, Any],
    new_process: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from PIL import Image

    Image.new("L", (8, 8)).save("one.png")
    fit(npz, method="erm", run_dir="run", **{**few, "hold_out": 0.3})
    assert call("export", "run", "--net", "nets.py", "--output", "exported").code == 0
    found = call("thresholds", "run", "--precision", "0.1", "--net", "nets.py", "--output", "levels.csv")
    assert "procrustean predict run PATH --net nets.py --thresholds levels.csv" in found.out + found.err
    assert call("predict", "run", "one.png", "--net", "nets.py", "--thresholds", "levels.csv").code == 0
    program = ["exported/load.py", "one.png"]
    new_process()
    monkeypatch.setattr(sys, "argv", program)
    with pytest.raises(SystemExit, match=r"Name it: --net nets\.py"):
        runpy.run_path("exported/load.py", run_name="__main__")
    monkeypatch.setattr(sys, "argv", [*program, "--net", "nets.py", "--thresholds", "levels.csv"])
    runpy.run_path("exported/load.py", run_name="__main__")
    assert "announced: " in capsys.readouterr().out


def test_list_nets_shows_it(call: Call) -> None:
    shown = call("list", "nets", "nets.py:Tiny")
    assert shown.code == 0
    assert "nets.py:Tiny " in shown.out
    assert "--tune: all, head" in shown.out


@pytest.mark.parametrize("words", [("list", "nets", "nte.py:Tiny"), ("evaluate", "run", "--net", "nte.py")])
def test_a_missing_file_is_that_of_a_network(words: tuple[str, ...], call: Call) -> None:
    assert "network 'nte.py" in call(*words).err


@pytest.mark.parametrize("name", ["nets:Tiny", "nets.Tiny"])
def test_a_name_like_that_of_a_module_is_answered_by_its_file(name: str, npz: str, few: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Did you mean nets\.py:Tiny\?"):
        fit(npz, method="erm", **{**few, "net": name})


def test_a_layer_inside_it_is_answered_by_its_path(npz: str, few: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"named by its path, such as backbone\.net\.stem$"):
        fit(npz, method="mfw", options={"layer": "stem"}, **few)
    fit(npz, method="mfw", options={"layer": "backbone.net.stem"}, **few)


def test_another_name_than_that_of_the_run_is_refused(call: Call, npz: str, few: dict[str, Any]) -> None:
    fit(npz, method="erm", run_dir="run", **few)
    for words in ("evaluate run", "evaluate run --adjust", "resume run", "predict run nets.py", "export run"):
        refused = call(*words.split(), "--net", "nets.py:softened")
        assert refused.code == 2
        assert "run was trained with 'Tiny'. Did you mean nets.py:Tiny?" in refused.err
    for file in ("nets.py", "nets.py:Tiny"):
        assert call("evaluate", "run", "--net", file).code == 0


def test_a_file_of_settings_needs_consent(call: Call, npz: str) -> None:
    Path("run.yaml").write_text(json.dumps({"source": npz, "net": "nets.py:Tiny", "epochs": 1, "device": "cpu"}))
    words = ("train", "--config", "run.yaml", "--method", "erm", "--quiet")
    refused = call(*words)
    assert (refused.code, "Name it: --allow-code nets.py" in refused.err) == (2, True)
    assert call(*words, "--allow-code", "nets.py").code == 0


def test_an_edited_file_is_another_network(npz: str, few: dict[str, Any], new_process: Callable[[], None]) -> None:
    fit(npz, method="erm", run_dir="run", **few)
    new_process()
    Path("nets.py").write_text(NETS + "\n")
    use_file("nets.py")
    with pytest.raises(ConfigError, match="has changed since"):
        evaluate("run")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("softened", "without a softmax"),
        ("for_ten", "makes 10 scores for 4 classes"),
        ("no_linear", "has no linear layer"),
        ("raises", r"KeyError, line \d+: 4"),
        ("Tny", "Did you mean 'Tiny'"),
    ],
)
def test_what_is_no_network_for_the_images_is_refused(name: str, told: str, npz: str, few: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=told):
        fit(npz, method="erm", **{**few, "net": f"nets.py:{name}"})


@pytest.mark.parametrize("method", ["bbn", "oltr"])
def test_methods_that_rebuild_the_network_refuse_it(method: str, npz: str, few: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="only this library's networks can be taken apart"):
        fit(npz, method=method, **few)


def test_a_module_trains_from_its_weights_and_stays_as_it_is(npz: str, few: dict[str, Any]) -> None:
    module = tiny_module()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    built = build_net(use_net(module), channels=1, classes=4, seed=5)
    assert torch.equal(built.head.weight, before["scores.weight"])  # type: ignore[arg-type]
    run = fit(npz, method="ldam", drw=True, **{**few, "net": module})
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert evaluate(run.path) == run.metrics


def test_a_module_has_to_be_handed_over_again(npz: str, few: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = tiny_module()
    run = fit(npz, method="mfw", run_dir="run", **{**few, "net": module})
    monkeypatch.setattr("procrustean.nets.own_net._handed_over", {})
    for use in (lambda: evaluate("run"), lambda: load_model("run"), lambda: evaluate("run", net=nn.Linear(2, 2))):
        with pytest.raises(ConfigError, match=r"of the same structure: procrustean\.nets\.use_net"):
            use()
    assert evaluate("run", net=tiny_module()) == run.metrics
    Path("run/result.json").unlink()
    assert resume("run", net=module).metrics == run.metrics


def test_a_function_makes_new_weights_for_each_seed(npz: str, few: dict[str, Any]) -> None:
    def made(channels: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes))

    name = use_net(made)
    first, again, other = (build_net(name, channels=1, classes=4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.head.weight, again.head.weight)  # type: ignore[arg-type]
    assert not torch.equal(first.head.weight, other.head.weight)  # type: ignore[arg-type]
    assert fit(npz, method="mfw", **{**few, "net": made}).record.recipe.net == name
