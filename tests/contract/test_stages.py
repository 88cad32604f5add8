"""Methods that are more than one stage on the usual network, through the trainer: stopped anywhere, loaded again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from procrustean.balance import Problem
from procrustean.methods import METHODS, Method, make_method
from procrustean.records import RunFolder
from procrustean.runs import FinishedRun, Stopped, evaluate, fit, load_run, resume
from saved_states import state

from .conftest import SETTINGS

PROBLEM = Problem((24, 12, 6, 3), "long_tailed", "digits", ("input", "group1", "group2", "group3"), "group2")
EPOCHS, BATCH = SETTINGS["epochs"], SETTINGS["batch_size"]


def more_than_plain(method: Method) -> bool:
    """Whether there is more to a run than one stage on the usual network."""
    special = any(stage.reshape or stage.begin or stage.extra for stage in method.stages)
    return len(method.stages) > 1 or special or method.head is not None or method.finish is not None


CHOSEN = [name for name in METHODS if more_than_plain(make_method(name, PROBLEM))]


class Until:
    """Asks a run to stop at its n-th boundary between steps."""

    exit_code = 130

    def __init__(self, boundary: int | None) -> None:
        self.left = boundary

    def __call__(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left <= 0


def stop_at(monkeypatch: pytest.MonkeyPatch, boundary: int | None) -> None:
    @contextmanager
    def handler(say: Any) -> Iterator[Until]:
        yield Until(boundary)

    monkeypatch.setattr("procrustean.runs.train_api.stop_on_signal", handler)


def assert_same(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "held_out.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    results = [json.loads((path / "result.json").read_text()) for path in (one, other)]
    for key in ("selections", "curves", "method"):
        assert results[0][key] == results[1][key], key


@pytest.mark.parametrize("name", CHOSEN)
def test_a_run_stopped_in_each_stage_resumes_to_the_same_end(
    name: str, wholes: dict[str, FinishedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wholes[name]
    per_epoch = -(-whole.record.data.train // BATCH)
    first = 0
    for number, stage in enumerate(whole.record.method.stages):
        steps = stage.epochs * per_epoch
        # In its last epoch. The end of a stage is no boundary: it saves in any case.
        path = tmp_path / f"stage{number}"
        stop_at(monkeypatch, first + steps - 2)
        with pytest.raises(Stopped):
            fit("digits", **SETTINGS, method=name, run_dir=path)
        stop_at(monkeypatch, None)
        _, saved = state(path)
        assert (saved["stage"], saved["step"] % per_epoch > 0) == (number, True)
        assert_same(resume(path).path, whole.path)
        first += steps - 1


@pytest.mark.parametrize("name", CHOSEN)
def test_a_run_killed_between_stages_resumes_to_the_same_end(
    name: str, wholes: dict[str, FinishedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wholes[name]
    save = RunFolder.save_checkpoint
    for number in range(1, len(whole.record.method.stages) + 1):
        path = tmp_path / str(number)

        def killed(self: RunFolder, tensors: Any, position: dict[str, Any], at: int = number) -> None:
            save(self, tensors, position)
            if position["stage"] == at and position["epoch"] == position["step"] == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(RunFolder, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            fit("digits", **SETTINGS, method=name, run_dir=path)
        monkeypatch.setattr(RunFolder, "save_checkpoint", save)
        assert_same(resume(path).path, whole.path)


@pytest.mark.parametrize("name", CHOSEN)
def test_both_selections_can_be_loaded_and_tested_again(name: str, wholes: dict[str, FinishedRun]) -> None:
    run = wholes[name]
    for weights in ("last", "held_out"):
        recorded = getattr(run.record.selections, weights).metrics
        assert evaluate(run.path, weights=weights).confusion == recorded.confusion
    _, net = load_run(run.path)
    for key, value in net.state_dict().items():
        assert torch.equal(value, run.net.state_dict()[key]), key


@pytest.mark.parametrize("name", CHOSEN)
def test_only_the_last_stage_is_selected_from(name: str, wholes: dict[str, FinishedRun]) -> None:
    record = wholes[name].record
    first = EPOCHS - record.method.stages[-1].epochs
    assert min(getattr(record.selections, kind).epoch for kind in ("last", "held_out", "oracle")) >= first


@pytest.mark.parametrize("name", CHOSEN)
def test_low_precision_runs_end_in_float32(name: str, tmp_path: Path) -> None:
    run = fit("digits", **{**SETTINGS, "precision": "bf16", "epochs": 2}, method=name, run_dir=tmp_path / "run")
    for key, value in load_file(run.path / "model.safetensors").items():
        assert value.dtype == torch.float32, key
        assert bool(value.isfinite().all()), key
