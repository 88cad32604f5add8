"""Tiny data, and tools to stop runs and to compare them bit by bit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Classify, Problem
from procrustean.data import ImageSet, Splits
from procrustean.engine import engines
from procrustean.engine.engines import EagerRunner, Engine
from procrustean.methods import METHODS, Method, Stage
from procrustean.methods.make import Entry
from procrustean.runs import FinishedRun, fit
from procrustean.runs import train_api as api

TRAIN_COUNTS = (24, 18, 12, 6)

#: Four steps in an epoch, the last one incomplete, and three epochs: twelve steps in all.
TINY: dict[str, Any] = {
    "net": "small",
    "epochs": 3,
    "batch_size": 16,
    "device": "cpu",
    "precision": "fp32",
    "method": "erm",
    "hold_out": 0,
}
STEPS = 12


def striped(counts: tuple[int, ...], seed: int, side: int = 8) -> ImageSet:
    """Noise with a bright stripe whose place gives the class away."""
    random = np.random.RandomState(seed)
    labels = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
    images = random.randint(0, 160, (len(labels), side, side, 1))
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 2] += 90
    return ImageSet(images.astype(np.uint8), labels, tuple(f"class{i}" for i in range(len(counts))))


@pytest.fixture
def deterministic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Algorithms on the GPU that give the same bits whenever they are given the same numbers."""
    monkeypatch.setitem(os.environ, "CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def splits() -> Splits:
    return Splits("stripes", striped(TRAIN_COUNTS, 0), striped((10, 10, 10, 10), 1))


@pytest.fixture
def npz(tmp_path: Path, splits: Splits) -> Path:
    """The same images as a file."""
    return save_npz(tmp_path / "stripes.npz", splits)


def save_npz(path: Path, splits: Splits) -> Path:
    np.savez(
        path,
        train_images=splits.train.images,
        train_labels=splits.train.labels,
        test_images=splits.test.images,
        test_labels=splits.test.labels,
        classes=np.array(splits.train.classes),
    )
    return path


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    return dict(TINY)


@pytest.fixture(scope="session")
def uninterrupted(
    splits: Splits, tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., FinishedRun]:
    """`uninterrupted(**changes)`: the tiny run with other settings, trained once for all tests; they only read it."""
    folder, runs = tmp_path_factory.mktemp("uninterrupted"), dict[str, FinishedRun]()

    def trained(**changes: Any) -> FinishedRun:
        key = json.dumps(changes, sort_keys=True)
        if key not in runs:
            runs[key] = fit(splits, **{**tiny, **changes}, run_dir=folder / str(len(runs)))
        return runs[key]

    return trained


class Countdown:
    """A stop request that comes true when it is asked for the n-th time, once per boundary between steps."""

    exit_code = 130

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`stop_after(n)` lets the next runs be stopped at their n-th boundary between steps; 0 lets them run."""

    def set_countdown(after: int, module: ModuleType = api) -> None:
        @contextmanager
        def countdown(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
            yield Countdown(after) if after else (lambda: False)

        monkeypatch.setattr(module, "stop_on_signal", countdown)

    return set_countdown


class Rehearsed:
    """What a captured runner does to the state, without a GPU: warm-up steps, each undone, then the steps."""

    def __init__(self, step: Callable[[], None], state: Sequence[Tensor]) -> None:
        before = [tensor.clone() for tensor in state]
        for _ in range(engines.WARM_UP_STEPS):
            step()
            engines._restore(state, before)
        self.run = EagerRunner(step)

    def __call__(self, count: int) -> None:
        self.run(count)


@pytest.fixture
def rehearse(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the next runs rehearse their steps as capturing does."""

    def patch() -> None:
        monkeypatch.setattr(Engine, "runners", lambda self, steps, state: [Rehearsed(step, state) for step in steps])

    return patch


def bare(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what may differ between two equal runs: clock times and places."""
    config = {key: value for key, value in result["config"].items() if key not in ("run_dir", "source")}
    kept = {k: v for k, v in result.items() if k not in ("finished_at", "seconds", "images_per_second")}
    return {**kept, "config": config}


def epochs_of(run: Path) -> list[dict[str, Any]]:
    lines = (run / "epochs.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "images_per_second"} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, held-out weights, curves and metrics are equal bit for bit."""
    for name in ("model.safetensors", "held_out.safetensors"):
        assert (one / name).exists() == (other / name).exists(), name
        if (one / name).exists():
            assert (one / name).read_bytes() == (other / name).read_bytes(), f"{name} differs"
    results = [json.loads((run / "result.json").read_text()) for run in (one, other)]
    assert bare(results[0]) == bare(results[1])
    assert epochs_of(one) == epochs_of(other)


@pytest.fixture(scope="session")
def same_run() -> Callable[[Path, Path], None]:
    return assert_same_run


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, bytes]]:
    return contents


def new_head(net: nn.Module) -> None:
    """What a second stage begins with: a head that has learnt nothing, drawn from torch's own generator."""
    nn.init.normal_(net.head.weight, std=0.1)
    nn.init.zeros_(net.head.bias)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`register(name, factory)` adds a method to the table for one test, as a file of its own would."""

    def add(name: str, factory: Callable[..., Method]) -> None:
        module = ModuleType(f"procrustean.methods.{name}")
        setattr(module, name, factory)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(METHODS, name, Entry((name,), "this test"))

    return add


@pytest.fixture
def two_stage(register: Callable[..., None]) -> str:
    """The name of a method that learns features first and then, on a new head, the classifier alone."""

    def two_stage(problem: Problem, *, drw: bool = False) -> Method:
        features = Stage(Classify(), name="features", share=0.5)
        classifier = Stage(
            Classify(),
            name="classifier",
            share=0.5,
            trainable="head",
            reshape=new_head,
            recipe={"lr": 0.2, "warmup_epochs": 0},
        )
        return Method(stages=(features, classifier), label="two stages")

    register("two_stage", two_stage)
    return "two_stage"


@pytest.fixture
def nan_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[list[int]]]:
    """`nan_at(n)` spoils the loss of the n-th step from now on; returns the images of every step, as they come."""
    from procrustean.engine.images import ImageStore

    def spoil(step: int, how: str = "loss") -> list[list[int]]:
        batches: list[list[int]] = []
        forward, augmented = Classify.forward, ImageStore.augmented

        def spoilt(self: Classify, net: Any, batch: Any, clock: Any) -> torch.Tensor:
            loss = forward(self, net, batch, clock)
            if len(batches) != step:
                return loss
            if how == "loss":
                return loss * float("nan")
            # A finite loss whose gradient is 0 * inf.
            return loss + (0 * net.head.weight.sum()).abs().sqrt()

        def recorded(self: ImageStore, index: torch.Tensor, *rest: Any) -> torch.Tensor:
            batches.append(sorted(index.tolist()))
            return augmented(self, index, *rest)

        monkeypatch.setattr(Classify, "forward", spoilt)
        monkeypatch.setattr(ImageStore, "augmented", recorded)
        return batches

    return spoil
