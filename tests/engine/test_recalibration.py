"""Statistics of a trained network recomputed on the batches of its training."""

from __future__ import annotations

import copy
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from procrustean.balance.batch_statistics import batch_norms
from procrustean.base import ConfigError
from procrustean.data import Splits
from procrustean.engine.evaluation import recompute_statistics
from procrustean.runs import evaluate, fit, load_run
from procrustean.runs.train_api import FinishedRun


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, splits: Splits, tiny: dict[str, Any]) -> dict[str, FinishedRun]:
    folder = tmp_path_factory.mktemp("runs")
    settings = {"mfw": {"method": "mfw"}, "erm": {"method": "erm"}, "gn": {"method": "mfw", "net": "resnet20-gn"}}
    return {
        name: fit(splits, **{**tiny, **changes}, average="both", run_dir=folder / name)
        for name, changes in settings.items()
    }


def statistics(net: Any) -> torch.Tensor:
    return torch.cat([torch.cat((layer.running_mean, layer.running_var)) for layer in batch_norms(net)])


def test_by_hand(runs: dict[str, FinishedRun], splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a learning rate of zero the training itself would leave these statistics behind."""
    from procrustean.engine.step import TrainStep

    prepared, net = load_run(runs["mfw"].path, splits=splits)
    inputs: dict[str, list[torch.Tensor]] = {}
    batch = TrainStep.batch
    sizes: list[int] = []

    def watched(self: TrainStep) -> Any:
        made = batch(self)
        sizes.append(len(made.y))
        return made

    monkeypatch.setattr(TrainStep, "batch", watched)
    for name, module in net.named_modules():
        if name.endswith("conv"):
            module.register_forward_hook(lambda m, a, out, name=name: inputs.setdefault(name, []).append(out.double()))
    recompute_statistics(prepared, net, "mixed")
    assert sizes == [16, 16, 16, 12]
    for name, maps in inputs.items():
        layer: Any = net.get_submodule(name.removesuffix("conv") + "norm")
        mean = sum(len(z) * z.mean((0, 2, 3)) for z in maps) / 60
        var = sum(len(z) * z.transpose(0, 1).flatten(1).var(1) for z in maps) / 60
        torch.testing.assert_close(layer.running_mean.double(), mean, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(layer.running_var.double(), var, atol=1e-5, rtol=1e-4)
    assert not net.training
    assert all(p.dtype == torch.float32 for p in net.parameters())


def test_mixing_makes_the_difference_behind_the_mixed_layer(runs: dict[str, FinishedRun], splits: Splits) -> None:
    for name in ("mfw", "erm"):
        prepared, mixed = load_run(runs[name].path, splits=splits)
        clean = copy.deepcopy(mixed)
        recompute_statistics(prepared, mixed, "mixed")
        recompute_statistics(prepared, clean, "clean")
        *before, last = zip(batch_norms(mixed), batch_norms(clean), strict=True)
        assert len(before) == 2
        for one, other in before if name == "mfw" else (*before, last):  # up to the layer that is mixed
            assert torch.equal(one.running_var, other.running_var)
            assert torch.equal(one.running_mean, other.running_mean)
        if name == "mfw":  # a mean of two features varies less than a feature
            spread = (last[1].running_var / last[0].running_var).sqrt().mean()
            assert spread > 1.02


def test_networks_without_batch_normalisation_stay_as_they_are(runs: dict[str, FinishedRun], splits: Splits) -> None:
    prepared, net = load_run(runs["gn"].path, splits=splits)
    before = copy.deepcopy(net.state_dict())
    recompute_statistics(prepared, net, "clean")
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_evaluating(runs: dict[str, FinishedRun], splits: Splits) -> None:
    path = runs["mfw"].path
    kept = evaluate(path, splits=splits)
    assert kept == runs["mfw"].metrics
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed = evaluate(path, statistics="mixed", splits=splits)
        evaluate(runs["erm"].path, statistics="clean", splits=splits)
        evaluate(path, weights="swa", statistics="mixed", splits=splits)
    assert mixed.images == kept.images
    with pytest.warns(UserWarning, match="MFW was trained on mixed batches") as found:
        evaluate(path, statistics="clean", splits=splits)
    assert [warning.filename for warning in found] == [__file__]  # where the caller stands
    with pytest.raises(ConfigError, match="statistics = 'new' received"):
        evaluate(path, statistics="new", splits=splits)  # type: ignore[arg-type]


def test_the_run_stays_as_it_was(runs: dict[str, FinishedRun], splits: Splits) -> None:
    path: Path = runs["erm"].path
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    evaluate(path, statistics="mixed", splits=splits)
    assert before == {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("method", ["meta_weight", "domain_adaptation"])
def test_methods_that_look_ahead_show_the_network_plain_batches(
    method: str, tmp_path: Path, splits: Splits, tiny: dict[str, Any]
) -> None:
    run = fit(splits, **{**tiny, "method": method}, run_dir=tmp_path / method)
    prepared, mixed = load_run(run.path, splits=splits)
    clean = copy.deepcopy(mixed)
    before = statistics(mixed)
    recompute_statistics(prepared, mixed, "mixed")
    recompute_statistics(prepared, clean, "clean")
    assert torch.equal(statistics(mixed), statistics(clean))
    assert not torch.equal(statistics(mixed), before)


def test_batches_that_a_forgotten_network_has_made_are_refused(
    tmp_path: Path, splits: Splits, tiny: dict[str, Any]
) -> None:
    run = fit(splits, **{**tiny, "method": "m2m"}, images="streamed", workers=1, run_dir=tmp_path / "m2m")
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match=r"statistics = 'mixed' received, but .* M2m .* 'kept', 'clean'"):
        evaluate(run.path, statistics="mixed", splits=splits)
    for thread in set(threading.enumerate()) - before:  # those that read images have been told to end
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert evaluate(run.path, statistics="clean", splits=splits).images == run.metrics.images
