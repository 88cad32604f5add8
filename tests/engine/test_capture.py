from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from procrustean.balance import Classify, Problem
from procrustean.base import ConfigError, RunError
from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import Reporter
from procrustean.data import Splits
from procrustean.engine.device import Placement
from procrustean.engine.engines import EagerRunner, Engine, GraphRunner, choose_engine
from procrustean.engine.prepared_run import (
    Prepared,
)
from procrustean.engine.step import TrainStep
from procrustean.methods import METHODS, Method, Stage, make_method
from procrustean.methods.make import option_defaults
from procrustean.runs import FinishedRun, fit
from procrustean.runs.train_api import Stopped, resume
from saved_states import state

Same = Callable[[Path, Path], None]
PROBLEM = Problem(counts=(24, 18, 12, 6), kind="long_tailed", layers=("input", "group1", "group2", "group3"))


class Unsteady(Classify):
    """An objective whose shapes depend on the data."""

    capturable = False


# Without a GPU


def test_an_eager_runner_calls_the_step() -> None:
    calls: list[int] = []
    runner = EagerRunner(lambda: calls.append(len(calls)))
    runner(3)
    runner(0)
    runner(2)
    assert calls == [0, 1, 2, 3, 4]


def chosen(asked: str, device: str, method: Method) -> Engine:
    return choose_engine(asked, "auto", Placement(torch.device(device), "fp32", "for a test"), method)


def test_a_cpu_trains_eagerly_and_says_why() -> None:
    method = make_method("erm", PROBLEM)
    assert chosen("auto", "cpu", method) == Engine("eager", "CUDA graphs need a GPU")
    assert chosen("eager", "cpu", method).reason == "as asked for"
    for asked in ("captured", "compiled"):
        with pytest.raises(ConfigError, match=f"engine '{asked}' received, but CUDA graphs need a GPU; use --engine"):
            chosen(asked, "cpu", method)


def test_an_objective_that_cannot_be_captured_runs_eagerly_on_a_gpu() -> None:
    method = Method(stages=(Stage(Classify(), share=0.5), Stage(Unsteady(), name="loose", share=0.5)), label="Loose")
    found = chosen("auto", "cuda", method)
    assert found.name == "eager"
    assert "stage 'loose' of Loose" in found.reason
    with pytest.raises(ConfigError, match="stage 'loose' of Loose"):
        chosen("captured", "cuda", method)
    assert chosen("auto", "cuda", make_method("mfw", PROBLEM)).name == "captured"


@pytest.mark.parametrize(
    ("method", "precision"), [*((method, "fp32") for method in METHODS), ("mfw", "bf16"), ("oltr", "bf16")]
)
def test_warm_up_steps_leave_no_trace(
    method: str,
    precision: str,
    splits: Splits,
    tiny: dict[str, Any],
    uninterrupted: Callable[..., FinishedRun],
    tmp_path: Path,
    same_run: Same,
    rehearse: Callable[[], None],
) -> None:
    """Every tensor that a step writes to is among those that are put back."""
    changes = {"method": method, "drw": "drw" in option_defaults(method), "precision": precision, "epochs": 2}
    plain = uninterrupted(**changes)
    rehearse()
    same_run(fit(splits, **{**tiny, **changes}, run_dir=tmp_path / "rehearsed").path, plain.path)


@pytest.mark.parametrize(
    "step",
    [1, 2, 3, 4],
)
def test_warm_up_steps_of_a_resumed_run_leave_no_trace(
    step: int,
    splits: Splits,
    tiny: dict[str, Any],
    uninterrupted: Callable[..., FinishedRun],
    tmp_path: Path,
    same_run: Same,
    rehearse: Callable[[], None],
    stop_after: Callable[[int], None],
) -> None:
    """Also where the full batches of the epoch are all done."""
    plain = uninterrupted()
    rehearse()
    stop_after(step)
    with pytest.raises(Stopped):
        fit(splits, **tiny, run_dir=tmp_path / "run")
    stop_after(0)
    same_run(resume(tmp_path / "run", splits=splits).path, plain.path)


# On a GPU


@pytest.fixture
def on_gpu(tiny: dict[str, Any]) -> dict[str, Any]:
    """Twenty steps: five epochs of four, the last batch of each incomplete."""
    return {**tiny, "device": "cuda", "epochs": 5}


class MemoryWatch(Reporter):
    """Remembers how much memory is taken after each epoch."""

    def __init__(self) -> None:
        self.allocated: list[int] = []
        self.reserved: list[int] = []

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        self.allocated.append(torch.cuda.memory_allocated())
        self.reserved.append(torch.cuda.memory_reserved())


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("net", ["small", "resnet20"])
@pytest.mark.parametrize("drw", [False, True], ids=["plain", "drw"])
@pytest.mark.parametrize("method", METHODS)
def test_captured_steps_equal_eager_steps(
    method: str, drw: bool, net: str, precision: str, splits: Splits, on_gpu: dict[str, Any], tmp_path: Path
) -> None:
    if drw and "drw" not in option_defaults(method):
        pytest.skip(f"{method} has no DRW")
    settings = {**on_gpu, "method": method, "drw": drw, "net": net, "precision": precision}
    runs = [fit(splits, **settings, engine=engine, run_dir=tmp_path / engine) for engine in ("eager", "captured")]
    assert [run.record.environment.engine for run in runs] == ["eager", "captured"]
    assert runs[0].record.curves == runs[1].record.curves
    weights = [load_file(run.path / "model.safetensors") for run in runs]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
def test_captured_stages_equal_eager_stages(
    two_stage: str, splits: Splits, on_gpu: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**on_gpu, "method": two_stage}
    paths = [fit(splits, **settings, engine=e, run_dir=tmp_path / e).path for e in ("eager", "captured")]
    assert (paths[0] / "model.safetensors").read_bytes() == (paths[1] / "model.safetensors").read_bytes()


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize(
    ("engine", "boundary"),
    [("eager", 1), ("eager", 2), ("captured", 1), ("captured", 2), ("captured", 4)],
)
def test_a_gpu_run_resumes_to_the_same_end(
    engine: str,
    boundary: int,
    splits: Splits,
    on_gpu: dict[str, Any],
    tmp_path: Path,
    stop_after: Callable[[int], None],
    same_run: Same,
) -> None:
    """Boundaries with odd numbers stand before the incomplete batch of an epoch, even ones at its end."""
    settings = {**on_gpu, "method": "mfw", "drw": True, "engine": engine}
    whole = fit(splits, **settings, run_dir=tmp_path / "whole")
    stop_after(boundary)
    with pytest.raises(Stopped):
        fit(splits, **settings, run_dir=tmp_path / "run")
    stop_after(0)
    same_run(resume(tmp_path / "run", splits=splits).path, whole.path)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["eager", "captured"])
@pytest.mark.parametrize("method", METHODS)
def test_no_step_waits_for_the_device(
    method: str,
    engine: str,
    splits: Splits,
    on_gpu: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step that reads a value back, or waits, raises within."""

    def watched(kind: type[Any]) -> None:
        call = kind.__call__

        def without_waiting(self: Any, *arguments: Any) -> None:
            torch.cuda.set_sync_debug_mode("error")
            try:
                call(self, *arguments)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            seen.extend([type(self).__name__] * (arguments[0] if arguments else 1))

        monkeypatch.setattr(kind, "__call__", without_waiting)

    seen: list[str] = []
    watched(GraphRunner if engine == "captured" else TrainStep)
    drw = "drw" in option_defaults(method)
    fit(splits, **{**on_gpu, "method": method}, drw=drw, engine=engine, run_dir=tmp_path / "run")
    assert len(seen) == 20


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["eager", "captured"])
def test_memory_does_not_grow_over_epochs(engine: str, splits: Splits, on_gpu: dict[str, Any], tmp_path: Path) -> None:
    watch = MemoryWatch()
    settings = {**on_gpu, "method": "mfw", "epochs": 50, "engine": engine, "hold_out": 2}
    fit(splits, **settings, track_training=True, run_dir=tmp_path / "run", reporter=watch)
    assert len(watch.allocated) == 50
    assert watch.allocated[-1] == watch.allocated[4]
    assert watch.reserved[-1] == watch.reserved[4]


@pytest.mark.gpu
def test_a_finished_run_gives_its_memory_back(splits: Splits, on_gpu: dict[str, Any], tmp_path: Path) -> None:
    taken = []
    for number in range(4):
        fit(splits, **{**on_gpu, "method": "mfw"}, engine="captured", run_dir=tmp_path / str(number))
        gc.collect()
        taken.append(torch.cuda.memory_allocated())
    assert taken[-1] == taken[1]


class SpoiltInSecondEpoch(Classify):
    """Its loss is no number from the second epoch on; what decides it is a tensor, as in a captured step."""

    def forward(self, *arguments: Any) -> Tensor:
        clock = arguments[2]
        loss = super().forward(*arguments)
        return loss * torch.where(clock.epoch >= 1, float("nan"), 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_value_that_is_no_number_freezes_a_captured_run(
    precision: str,
    register: Callable[..., None],
    splits: Splits,
    on_gpu: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoilt(problem: Problem) -> Method:
        return Method(stages=(Stage(SpoiltInSecondEpoch()),), label="Spoilt")

    register("spoilt", spoilt)
    nets = []
    build = Prepared.build_net
    monkeypatch.setattr(Prepared, "build_net", lambda self: nets.append(build(self)) or nets[-1])
    settings = {**on_gpu, "method": "spoilt", "precision": precision, "engine": "captured", "checkpoint_every": 0}
    with pytest.raises(RunError, match="non-finite loss, gradient or weight in epoch 2, step 1,"):
        fit(splits, **settings, run_dir=tmp_path / "run")
    # The last checkpoint is the end of the first epoch; three more steps of the second have run and changed nothing.
    kept, position = state(tmp_path / "run")
    assert (position["epoch"], position["step"]) == (1, 0)
    for name, value in nets[-1].state_dict().items():
        if value.is_floating_point():
            assert torch.equal(value.cpu(), kept[f"net.{name}"].to(value.dtype)), name


@pytest.mark.gpu
def test_training_leaves_the_gpus_generators_and_flags_as_they_were(
    two_stage: str, splits: Splits, on_gpu: dict[str, Any], tmp_path: Path
) -> None:
    def state() -> list[Any]:
        cudnn = torch.backends.cudnn
        return [torch.cuda.get_rng_state().tolist(), cudnn.benchmark, cudnn.enabled, torch.cuda.current_stream()]

    torch.cuda.init()
    before = state()
    fit(splits, **{**on_gpu, "method": two_stage}, run_dir=tmp_path / "run")
    assert state() == before


@pytest.mark.gpu
def test_a_step_is_not_captured_on_the_default_stream() -> None:
    with pytest.raises(RuntimeError, match="default stream"):
        GraphRunner(lambda: None, [], torch.cuda.graph_pool_handle())


@pytest.mark.gpu
def test_a_gpu_captures_by_itself(splits: Splits, on_gpu: dict[str, Any], tmp_path: Path) -> None:
    run = fit(splits, **on_gpu, run_dir=tmp_path / "run")
    assert run.record.environment.engine == "captured"
    assert run.record.environment.device.startswith("cuda")


@pytest.mark.gpu
def test_a_cpu_and_a_gpu_consume_the_same_numbers(splits: Splits, on_gpu: dict[str, Any], tmp_path: Path) -> None:
    """The first loss of a run depends on weights, order, augmentation and mixing, not yet on rounding."""
    losses = [
        fit(splits, **{**on_gpu, "device": device, "method": "mfw", "epochs": 1, "batch_size": 60},
            run_dir=tmp_path / device).record.curves.loss[0]
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)  # convolutions may round to TF32
