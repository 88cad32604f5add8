"""Training a head alone on features that were computed beforehand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from procrustean import export, fit, load_model
from procrustean.base import ConfigError, stop_signals
from procrustean.base.stop_signals import StopRequest
from procrustean.engine import frozen_features
from procrustean.methods import METHODS
from procrustean.nets import build_net
from procrustean.runs import FinishedRun, Stopped, evaluate, load_run, resume

DIGITS: dict[str, Any] = {"source": "digits", "imbalance": "step", "rho": 10, "net": "small", "epochs": 4, "seed": 0}
ON_FEATURES = [name for name, entry in METHODS.items() if not entry.on_images]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone that has seen nothing: its features are random projections."""
    path = tmp_path_factory.mktemp("weights") / "small.pth"
    torch.save(build_net("small", channels=1, classes=10, seed=7).backbone.state_dict(), path)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def trained(weights: Path, tmp_path: Path, name: str = "run", **settings: Any) -> FinishedRun:
    return fit(**{**DIGITS, "pretrained": str(weights), "tune": "head", "run_dir": tmp_path / name, **settings})


def test_the_head_learns_and_nothing_else(weights: Path, tmp_path: Path) -> None:
    run = trained(weights, tmp_path, method="erm", epochs=30)
    kept, begun = load_file(run.path / "model.safetensors"), torch.load(weights)
    for name, value in begun.items():
        assert torch.equal(kept[f"backbone.{name}"], value), name
    assert run.metrics.balanced_accuracy > 0.5
    assert kept["features.mean"].abs().sum() > 0


def test_the_network_says_of_images_what_it_says_of_their_features(weights: Path, tmp_path: Path) -> None:
    run = trained(weights, tmp_path, method="mfw", drw=True)
    assert evaluate(run.path).confusion == run.metrics.confusion
    _, net = load_run(run.path)
    images = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(net(images), net(net.backbone(images)))


def test_a_trained_head_is_loaded_and_exported(weights: Path, tmp_path: Path) -> None:
    run = trained(weights, tmp_path, method="mfw", options={"layer": "features"})
    prepared, net = load_run(run.path)
    pixels = prepared.splits.test.images[:5]
    model = load_model(run.path)
    wanted = net(model.preparation(torch.from_numpy(pixels))).detach().double().numpy()
    np.testing.assert_array_equal(model.scores(pixels), wanted)
    for form in ("safetensors", "torch"):
        assert export(run.path, form=form, output=tmp_path / form).difference < 1e-6  # type: ignore[arg-type]
    np.testing.assert_array_equal(load_model(tmp_path / "safetensors").scores(pixels), wanted)


def test_features_are_computed_once_for_each_image(
    weights: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trained(weights, tmp_path, "first", method="erm")
    files = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    again = trained(weights, tmp_path, "again", method="erm")
    held = trained(weights, tmp_path, "held", method="erm", hold_out=0.2)
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir() if path in files} == files
    one, other = (load_file(run.path / "model.safetensors") for run in (first, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert held.record.selections.held_out is not None


def test_a_damaged_cache_is_computed_anew(weights: Path, tmp_path: Path, cache: Path) -> None:
    first = trained(weights, tmp_path, "first", method="erm")
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    again = trained(weights, tmp_path, "again", method="erm")
    assert again.metrics == first.metrics


@pytest.mark.parametrize("method", ON_FEATURES)
def test_methods_train_on_features(method: str, weights: Path, tmp_path: Path) -> None:
    run = trained(weights, tmp_path, method=method, hold_out=0.2, epochs=2)
    assert np.isfinite(run.record.curves.loss).all()
    assert evaluate(run.path).confusion == run.metrics.confusion


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ON_FEATURES])
def test_methods_that_need_images_say_why(method: str, weights: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the images"):
        trained(weights, tmp_path, method=method)


def test_without_weights_there_are_no_features(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--pretrained"):
        fit(**DIGITS, tune="head", run_dir=tmp_path / "run")


def test_a_stopped_run_goes_on(
    weights: Path, tmp_path: Path, stop_after: Callable[[int], None], same_run: Callable[[Path, Path], None]
) -> None:
    settings: dict[str, Any] = {"method": "mfw", "drw": True}
    whole = trained(weights, tmp_path, "whole", **settings)
    stop_after(5)
    with pytest.raises(Stopped):
        trained(weights, tmp_path, "cut", **settings)
    stop_after(0)
    same_run(resume(tmp_path / "cut").path, whole.path)


def test_what_was_computed_before_a_stop_is_kept(
    weights: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(weights, tmp_path, "whole", method="erm")
    computed, asked = frozen_features._computed, StopRequest()

    def stopping(*given: Any) -> torch.Tensor:
        calls.append(len(given[3]))
        asked.signal = 2 if len(calls) == 20 else None
        return computed(*given)

    calls: list[int] = []
    shutil.rmtree(cache)
    monkeypatch.setattr(frozen_features, "KEPT_TOGETHER", 64)
    monkeypatch.setattr(frozen_features, "_computed", stopping)
    monkeypatch.setattr(stop_signals, "_HEARD", [asked])
    with pytest.raises(Stopped, match="go on"):
        trained(weights, tmp_path, "cut", method="erm")
    assert len(calls) == 20  # it ends at once
    asked.signal = None
    assert resume(tmp_path / "cut").metrics == whole.metrics
    views = 2 * sum(whole.record.data.counts) + whole.metrics.images
    assert views <= sum(calls) <= views + frozen_features.KEPT_TOGETHER
