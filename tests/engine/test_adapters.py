"""Training an adapter in a vision transformer with pretrained weights, and its head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from procrustean import export, fit, load_model
from procrustean.balance import Classify
from procrustean.base import ConfigError
from procrustean.data import Splits
from procrustean.data.recipe import Adapter
from procrustean.methods import Method, Stage
from procrustean.nets import build_net
from procrustean.nets.pretrained import read_pretrained
from procrustean.runs import FinishedRun, Stopped, evaluate, load_run, resume

#: Methods with their settings, tried with one of the adapters.
OTHERS: tuple[dict[str, Any], ...] = (
    {"method": "mfw", "options": {"layer": "group3"}},
    {"method": "ldam", "drw": True},  # has a head of its own
    {"method": "crt"},  # its second stage trains the head alone
    {"method": "m2m"},  # starts the network anew
    {"method": "meta_weight"},  # differentiates forwards
)
KINDS: tuple[Adapter, ...] = ("lora", "scale_shift", "bitfit")
LEARNING = {
    "lora": ("lora_A.default.weight", "lora_B.default.weight"),
    "scale_shift": ("scale", "shift"),
    "bitfit": "bias",
}


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of transformers with random weights, for grey images of 8 x 8 pixels."""
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("vit")
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4,
        num_channels=1, num_labels=4,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(1)
        ViTForImageClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture
def trained(vit: Path, splits: Splits, tmp_path: Path) -> Callable[..., FinishedRun]:
    def run(tune: Adapter, name: str = "run", **settings: Any) -> FinishedRun:
        if tune == "lora":
            pytest.importorskip("peft")
        usual: dict[str, Any] = {
            "net": f"hf:{vit}", "pretrained": "published", "epochs": 2, "batch_size": 16, "method": "erm",
            "device": "cpu", "precision": "fp32", "hold_out": 0, "run_dir": tmp_path / name,
        }  # fmt: skip
        return fit(splits, tune=tune, **{**usual, **settings})

    return run


@pytest.mark.parametrize("tune", KINDS)
class TestEach:
    def test_it_alone_learns(self, tune: Adapter, vit: Path, trained: Callable[..., FinishedRun]) -> None:
        run = trained(tune, epochs=5, lr=0.02, augment="none")
        weights = read_pretrained("published", f"hf:{vit}")
        net = build_net(f"hf:{vit}", channels=1, classes=4, seed=0, size=(8, 8), pretrained=weights, tune=tune)
        kept = load_file(run.path / "model.safetensors")
        changed = {name for name, value in net.state_dict().items() if not torch.equal(kept[name], value)}
        assert {"head.weight", "head.bias"} < changed
        assert all(name.startswith("head.") or name.endswith(LEARNING[tune]) for name in changed)
        assert run.record.curves.loss[-1] < run.record.curves.loss[0]
        assert (run.record.config.tune, run.record.recipe_name) == (tune, "adapters")

    def test_a_stopped_run_goes_on(
        self,
        tune: Adapter,
        splits: Splits,
        tmp_path: Path,
        trained: Callable[..., FinishedRun],
        stop_after: Callable[[int], None],
        same_run: Callable[[Path, Path], None],
    ) -> None:
        whole = trained(tune, "whole")
        stop_after(5)
        with pytest.raises(Stopped):
            trained(tune, "cut")
        stop_after(0)
        same_run(resume(tmp_path / "cut", splits=splits).path, whole.path)

    def test_it_is_mixed_loaded_and_exported(
        self, tune: Adapter, splits: Splits, tmp_path: Path, trained: Callable[..., FinishedRun]
    ) -> None:
        run = trained(tune, method="mfw", drw=True)
        assert np.isfinite(run.record.curves.loss).all()
        assert evaluate(run.path, splits=splits).confusion == run.metrics.confusion
        _, net = load_run(run.path, splits=splits)
        model, pixels = load_model(run.path, device="cpu"), splits.test.images[:5]
        wanted = net(model.preparation(torch.from_numpy(pixels))).detach().double().numpy()
        np.testing.assert_array_equal(model.scores(pixels), wanted)
        export(run.path, output=tmp_path / "exported")
        np.testing.assert_array_equal(load_model(tmp_path / "exported", device="cpu").scores(pixels), wanted)


@pytest.mark.parametrize("settings", OTHERS, ids=lambda settings: settings["method"])
def test_other_methods(settings: dict[str, Any], splits: Splits, trained: Callable[..., FinishedRun]) -> None:
    run = trained("lora", **settings)
    assert evaluate(run.path, splits=splits).confusion == run.metrics.confusion


def test_exports_for_other_programs(trained: Callable[..., FinishedRun], tmp_path: Path) -> None:
    assert export(trained("lora").path, form="torch", output=tmp_path / "torch").difference < 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"net": "small"}, "tune 'bitfit' received, but small has no attention layers.*use --tune head or all"),
        ({"pretrained": None}, "tune 'bitfit' received without weights that stay as they are; give --pretrained"),
        ({"method": "bbn"}, "only this library's networks can be taken apart"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str, trained: Callable[..., FinishedRun]) -> None:
    with pytest.raises(ConfigError, match=message):
        trained("bitfit", **settings)


def test_a_method_with_parts_of_its_own(trained: Callable[..., FinishedRun], register: Callable[..., None]) -> None:
    stage = Stage(Classify(), name="features", trainable=("backbone", "head"))
    register("parts", lambda problem: Method((stage,), label="Parts"))
    with pytest.raises(ConfigError, match=r"'features' of Parts says itself .* learns: backbone, head"):
        trained("bitfit", method="parts")
