"""What a stage may ask for: a second stream of images, rates and decay by name, fixed statistics, values from data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Batch, Classify, Clock, Problem
from procrustean.balance.samplers import in_turn
from procrustean.base import Stream
from procrustean.data import ImageSet, Splits
from procrustean.engine import stage_training as stage
from procrustean.engine.engines import Engine
from procrustean.engine.optimizer import SGD, FlatBuffers, FlatParameters
from procrustean.methods import Method, Stage
from procrustean.records.run_record import MetaRecord
from procrustean.runs import fit, preparing
from procrustean.runs.train_api import Stopped, resume


@pytest.fixture
def run_settings(tiny: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return {**tiny, "run_dir": tmp_path / "run"}


def test_rates_and_decay_by_name_equal_torchs_parameter_groups() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    twin = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    twin.load_state_dict(net.state_dict())
    reference = torch.optim.SGD(
        [
            {"params": [twin[0].weight], "lr": 0.1, "weight_decay": 0.01},
            {"params": [twin[0].bias], "lr": 0.1, "weight_decay": 0.0},
            {"params": [twin[2].weight, twin[2].bias], "lr": 0.025, "weight_decay": 0.01},
        ],
        momentum=0.9,
    )
    parameters = FlatParameters(net, [name for name, _ in net.named_parameters()], None)
    optimizer = SGD(
        parameters,
        FlatBuffers(net, torch.device("cpu")),
        lr=torch.tensor(0.1),
        momentum=0.9,
        nesterov=False,
        weight_decay=0.01,
        rates={"2": 0.25},
        no_decay=("0.bias",),
    )
    for _ in range(10):
        x, y = torch.randn(8, 5), torch.randint(3, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.step(loss, torch.autograd.grad(loss, parameters.parameters))
        reference.zero_grad()
        nn.functional.cross_entropy(twin(x), y).backward()
        reference.step()
    for (name, found), wanted in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, msg=name)


def rarest_only(labels: np.ndarray, count: int, stream: Stream) -> np.ndarray:
    rarest = np.flatnonzero(labels == labels.max())
    return rarest[stream.integers(len(rarest), count)]


class Watching(Classify):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        assert batch.extra is not None
        self.seen.append((batch.extra.x.clone(), batch.extra.y.clone()))
        assert len(batch.extra.y) == len(batch.y)
        return super().forward(net, batch, clock)


def test_the_second_stream_follows_its_sampler_and_leaves_the_first_alone(
    register: Callable[..., None], splits: Splits, run_settings: dict[str, Any], tmp_path: Path
) -> None:
    watching = Watching()
    register("watching", lambda problem: Method((Stage(watching, extra=rarest_only),), "watching"))
    run = fit(splits, **{**run_settings, "method": "watching"})
    labels = torch.cat([y for _, y in watching.seen])
    assert len(labels) == run.record.data.train * run.record.recipe.epochs
    assert set(labels.tolist()) == {len(run.record.data.classes) - 1}
    assert len({x.sum().item() for x, _ in watching.seen}) > 1, "augmented anew each time"
    plain = fit(splits, **{**run_settings, "method": "erm", "run_dir": tmp_path / "plain"})
    assert run.record.curves.loss == plain.record.curves.loss


def test_the_second_stream_may_come_from_a_balanced_set(
    register: Callable[..., None], splits: Splits, run_settings: dict[str, Any], tmp_path: Path
) -> None:
    watching = Watching()
    stages = (Stage(watching, extra=in_turn, extra_from="meta", meta_per_class=4),)
    register("watching", lambda problem: Method(stages, "watching"))
    # Crops and flips leave the brightest pixel alone: it gives the class away.
    bright = (np.ones_like(splits.train.images) * (splits.train.labels * 60 + 20)[:, None, None, None]).astype(np.uint8)
    splits = Splits("bright", ImageSet(bright, splits.train.labels, splits.train.classes), splits.test)
    run = fit(splits, **{**run_settings, "method": "watching"})
    assert run.record.data.meta == MetaRecord(images=16, per_class=4, spare=0, train=16)
    whole = [(x.amax((1, 2, 3)), y) for x, y in watching.seen if len(y) == 16]
    assert len(whole) == 9
    for brightness, y in whole:
        assert torch.bincount(y).tolist() == [4, 4, 4, 4], "as many as there are: each of them once"
        levels = brightness[y.argsort()].view(4, 4)
        assert (levels[:, 1:] == levels[:, :1]).all(), "images and labels belong together"
        assert (levels[1:, 0] > levels[:-1, 0]).all()
    plain = fit(splits, **{**run_settings, "method": "erm", "run_dir": tmp_path / "plain"})
    assert plain.record.data.meta is None
    assert run.record.curves.loss == plain.record.curves.loss


def test_what_is_drawn_before_a_stage_and_after_the_last_repeats(
    register: Callable[..., None], splits: Splits, run_settings: dict[str, Any], tmp_path: Path
) -> None:
    drawn: dict[str, list[float]] = {"begin": [], "finish": []}

    def fresh_head(net: nn.Module, batches: Any) -> None:
        net.head.reset_parameters()
        drawn["begin"].append(torch.rand(()).item())

    def end(net: nn.Module, judge: Any) -> None:
        drawn["finish"].append(torch.rand(()).item())

    first = Stage(Classify(), share=0.5)
    stages = (first, Stage(Classify(), name="head", share=0.5, trainable="head", begin=fresh_head))
    register("drawing", lambda problem: Method(stages, "drawing", finish=end))
    runs = []
    for number in range(2):
        torch.manual_seed(number)  # whatever else a program draws
        before = torch.get_rng_state()
        runs.append(fit(splits, **{**run_settings, "method": "drawing", "run_dir": tmp_path / str(number)}))
        assert torch.equal(torch.get_rng_state(), before)
    assert all(len(values) == 2 and values[0] == values[1] for values in drawn.values())
    assert drawn["begin"] != drawn["finish"]
    assert runs[0].record.method.finish == {}, "it had nothing to say"
    states = [run.net.state_dict() for run in runs]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.mark.parametrize("norm", ["train", "eval"])
def test_statistics_of_a_frozen_backbone(
    norm: Any, register: Callable[..., None], splits: Splits, run_settings: dict[str, Any]
) -> None:
    kept: list[Tensor] = []

    def remember(net: nn.Module, batches: Callable[[], Iterator[tuple[Tensor, Tensor]]]) -> None:
        kept.append(net.backbone.group1.norm.running_mean.clone())
        images, labels = zip(*batches(), strict=True)
        assert sum(len(x) for x in images) == len(torch.cat(labels))

    stages = (
        Stage(Classify(), share=0.5),
        Stage(Classify(), name="head", share=0.5, trainable="head", norm=norm, begin=remember),
    )
    register("frozen", lambda problem: Method(stages, "frozen"))
    run = fit(splits, **{**run_settings, "method": "frozen"})
    now = run.net.backbone.group1.norm.running_mean
    assert torch.equal(now, kept[0]) == (norm == "eval")


def test_several_parts_learn_and_no_others(
    register: Callable[..., None], splits: Splits, run_settings: dict[str, Any]
) -> None:
    before: list[dict[str, Tensor]] = []

    def remember(net: nn.Module, batches: Any) -> None:
        before.append({name: p.detach().clone() for name, p in net.named_parameters()})

    parts = ("head.bias", "backbone.group2.conv")
    register("parts", lambda problem: Method((Stage(Classify(), trainable=parts, begin=remember),), "parts"))
    run = fit(splits, **{**run_settings, "method": "parts"})
    changed = {name for name, p in run.net.named_parameters() if not torch.equal(p, before[0][name])}
    assert changed == {"head.bias", "backbone.group2.conv.weight"}


@pytest.fixture
def compiling_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take the way of those with kernels of their own, which are compiled before the first step."""
    launching = ModuleType("procrustean.balance.triton_launch")
    launching.compile_in_parallel = nullcontext  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, launching.__name__, launching)
    monkeypatch.setattr(stage, "use_fused_kernels", lambda net, on: None)
    monkeypatch.setattr(preparing, "choose_engine", lambda *arguments: Engine("eager", "for a test", kernels=True))


def test_compiling_kernels_ahead_leaves_no_trace_in_statistics(
    splits: Splits, run_settings: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The network is called for it, on values that are not computed."""
    settings = {**run_settings, "method": "deconfound"}
    plain = fit(splits, **{**settings, "run_dir": tmp_path / "plain"})
    request.getfixturevalue("compiling_ahead")
    ahead = fit(splits, **{**settings, "run_dir": tmp_path / "ahead"})
    assert (ahead.path / "model.safetensors").read_bytes() == (plain.path / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("compiling_ahead")
@pytest.mark.parametrize("step", [2, 3])
def test_kernels_are_compiled_ahead_wherever_in_an_epoch_a_run_goes_on(
    step: int,
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    stop_after: Callable[[int], None],
    same_run: Callable[[Path, Path], None],
) -> None:
    """Also behind its last whole batch, where only the incomplete one is left."""
    whole = fit(splits, **{**run_settings, "run_dir": tmp_path / "whole"})
    stop_after(step)
    with pytest.raises(Stopped):
        fit(splits, **{**run_settings, "run_dir": tmp_path / "run"})
    stop_after(0)
    same_run(resume(tmp_path / "run", splits=splits).path, whole.path)


def test_problem_is_all_a_method_sees() -> None:
    assert set(Problem.__dataclass_fields__) == {"counts", "kind", "source", "layers", "second_group"}
