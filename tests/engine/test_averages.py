"""Averages of the weights along training: against averages taken by hand, resumed, captured, evaluated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from procrustean import RunSpec
from procrustean.base import ConfigError, RunError
from procrustean.data import Splits
from procrustean.engine.stage_training import StageRun
from procrustean.engine.step import TrainStep
from procrustean.runs import evaluate, fit
from procrustean.runs.train_api import Stopped, resume

Same = Callable[[Path, Path], None]
StopAfter = Callable[[int], None]
KINDS = ("ema", "swa")


def files(run: Path) -> dict[str, bytes]:
    return {kind: (run / f"{kind}.safetensors").read_bytes() for kind in KINDS}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_against_averages_taken_by_hand(
    precision: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[dict[str, Tensor]] = []  # before the first step and after each
    ends: list[dict[str, Tensor]] = []  # after each epoch
    step, end, stages = TrainStep.__call__, StageRun.end_epoch, []

    def copied() -> dict[str, Tensor]:
        return {name: value.double() for name, value in stages[-1].weights().items()}

    def watched(self: TrainStep) -> None:
        states or states.append(copied())
        step(self)
        states.append(copied())

    def begun(self: StageRun, *args: Any) -> None:
        stages.append(self)
        begin(self, *args)

    begin = StageRun.begin_epoch
    monkeypatch.setattr(TrainStep, "__call__", watched)
    monkeypatch.setattr(StageRun, "begin_epoch", begun)
    monkeypatch.setattr(StageRun, "end_epoch", lambda self, epoch: (ends.append(copied()), end(self, epoch)))
    settings = {**tiny, "precision": precision, "epochs": 8, "method": "mfw", "average": "both"}
    run = fit(splits, **settings, run_dir=tmp_path / "run")

    assert len(states) == 1 + 8 * 4
    ema = states[0]
    for t, state in enumerate(states[1:], start=1):
        decay = min(0.999, (1 + t) / (10 + t))
        ema = {name: decay * ema[name] + (1 - decay) * value for name, value in state.items()}
    swa = {name: (ends[6][name] + ends[7][name]) / 2 for name in ema}  # a quarter of eight epochs
    for kind, wanted in (("ema", ema), ("swa", swa)):
        found = load_file(run.path / f"{kind}.safetensors")
        assert found.keys() == run.net.state_dict().keys()
        for name, value in wanted.items():
            torch.testing.assert_close(found[name].double(), value, atol=1e-5, rtol=1e-5, msg=f"{kind}: {name}")


@pytest.mark.parametrize(
    ("settings", "epochs", "first"),
    [
        ({}, 8, 6),
        ({"drw": True}, 5, 4),  # the last quarter is as short as the last 20 %
        ({"drw": True}, 20, 16),
        ({"options": {"drw": True}}, 20, 16),
        ({"drw": True, "swa_from": "last_quarter"}, 20, 15),
    ],
)
def test_the_mean_begins_no_earlier_than_deferred_weights(
    settings: dict[str, Any], epochs: int, first: int, splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "method": "mfw", "average": "swa", "keep_weights_every": 1, "epochs": epochs, **settings}
    run = fit(splits, **settings, run_dir=tmp_path / "run")
    assert run.record.method.swa_first_epoch == first
    ends = [load_file(run.path / f"weights-{epoch:06d}.safetensors") for epoch in range(first + 1, epochs + 1)]
    for name, value in load_file(run.path / "swa.safetensors").items():
        if value.is_floating_point():
            mean = torch.stack([end[name].double() for end in ends]).mean(0)
            torch.testing.assert_close(value.double(), mean, atol=1e-5, rtol=1e-5)


def test_the_run_itself_is_the_same_without(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    plain = fit(splits, **tiny, run_dir=tmp_path / "plain")
    averaged = fit(splits, **tiny, average="both", run_dir=tmp_path / "averaged")
    assert (plain.path / "model.safetensors").read_bytes() == (averaged.path / "model.safetensors").read_bytes()
    assert not (plain.path / "ema.safetensors").exists()
    model = load_file(averaged.path / "model.safetensors")
    for kind in KINDS:
        average = load_file(averaged.path / f"{kind}.safetensors")
        assert any(not torch.equal(average[name], model[name]) for name in model) == (kind == "ema")  # swa: one epoch


@pytest.mark.parametrize("step", [1, 4, 7, 12, 15])
def test_resuming(
    step: int, splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    settings = {**tiny, "method": "mfw", "epochs": 4, "average": "both"}
    whole = fit(splits, **settings, run_dir=tmp_path / "whole").path
    stop_after(step)
    with pytest.raises(Stopped):
        fit(splits, **settings, run_dir=tmp_path / "run")
    stop_after(0)
    again = resume(tmp_path / "run", splits=splits).path
    same_run(again, whole)
    assert files(again) == files(whole)


def test_they_are_there_when_the_last_checkpoint_is(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_run: Same
) -> None:
    """Killed after the last stage, when checkpoints hold the network alone."""
    whole = fit(splits, **tiny, average="both", run_dir=tmp_path / "whole").path
    with monkeypatch.context() as patched:
        patched.setattr("procrustean.runs.one_run.make_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(splits, **tiny, average="both", run_dir=tmp_path / "run")
    again = resume(tmp_path / "run", splits=splits).path
    same_run(again, whole)
    assert files(again) == files(whole)


def test_evaluating_them(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    run = fit(splits, **tiny, average="ema", run_dir=tmp_path / "run").path
    last, ema = (evaluate(run, weights=weights, splits=splits) for weights in ("last", "ema"))
    assert last.confusion != ema.confusion or last == ema
    with pytest.raises(RunError, match=r"no swa\.safetensors: it was trained without --average swa"):
        evaluate(run, weights="swa", splits=splits)
    with pytest.raises(ConfigError, match=r"accepted: 'last', 'held_out', 'ema', 'swa'"):
        evaluate(run, weights="mean", splits=splits)


def test_methods_whose_average_means_nothing(splits: Splits, tiny: dict[str, Any]) -> None:
    for method in ("crt", "tau_norm"):
        with pytest.raises(ConfigError, match=r"average 'ema' received, but .* leave --average out"):
            fit(splits, **{**tiny, "method": method}, average="ema")


def test_runs_without_keep_their_names() -> None:
    plain = RunSpec("digits", seed=3)
    assert plain.hash == RunSpec.from_json({"source": "digits", "seed": 3}).hash == "e309f6ccc275"
    assert plain.hash == RunSpec("digits", seed=3, average="none").hash
    assert plain.hash != RunSpec("digits", seed=3, average="ema").hash


def test_where_the_mean_begins_tells_runs_apart_where_it_matters() -> None:
    def name(**settings: Any) -> str:
        return RunSpec("digits", **settings).hash

    assert name(drw=True, average="both", swa_from="last_quarter") == "3bd5465e1bb2" != name(drw=True, average="both")
    assert name(options={"drw": True}, average="swa") != name(
        options={"drw": True}, average="swa", swa_from="last_quarter"
    )
    for idle in ({"average": "both"}, {"drw": True, "average": "ema"}, {"drw": True}):
        assert name(**idle) == name(**idle, swa_from="last_quarter")


def test_a_run_goes_on_with_the_mean_it_began_with(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    settings = {**tiny, "method": "mfw", "drw": True, "epochs": 20, "average": "both"}
    whole = fit(splits, **settings, swa_from="last_quarter", run_dir=tmp_path / "whole").path
    stop_after(30)
    with pytest.raises(Stopped):
        fit(splits, **settings, swa_from="last_quarter", run_dir=tmp_path / "run")
    stop_after(0)
    again = resume(tmp_path / "run", splits=splits).path
    assert files(again) == files(whole)
    with pytest.raises(RunError, match=r"other settings \(swa_from: 'last_quarter' there, 'drw' here\)"):
        fit(splits, **settings, run_dir=tmp_path / "run")


def test_trial_steps_before_a_capture_leave_no_trace(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, rehearse: Callable[[], None], same_run: Same
) -> None:
    settings = {**tiny, "average": "both"}
    plain = fit(splits, **settings, run_dir=tmp_path / "plain").path

    rehearse()
    tried = fit(splits, **settings, run_dir=tmp_path / "tried").path
    same_run(tried, plain)
    assert files(tried) == files(plain)


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("net", ["small", "resnet20-gn", "convnet-ln"])
def test_captured_steps_equal_eager_steps(net: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = {**tiny, "device": "cuda", "epochs": 5, "method": "mfw", "net": net, "average": "both"}
    runs = [fit(splits, **settings, engine=engine, run_dir=tmp_path / engine).path for engine in ("eager", "captured")]
    for kind in KINDS:
        eager, captured = (load_file(run / f"{kind}.safetensors") for run in runs)
        torch.testing.assert_close(captured, eager, atol=1e-3, rtol=1e-3)
