"""What a program has set for torch does not reach the runs that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from procrustean import RunSpec, adjust, evaluate, export, fit, load_model
from procrustean.data import Splits
from procrustean.engine.engines import timed_algorithms
from procrustean.report import diagnose_run
from procrustean.runs import fit_many
from procrustean.runs.torch_settings import undisturbed
from procrustean.runs.train_api import FinishedRun


@contextmanager
def doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        assert torch.get_default_dtype() == torch.float64  # what was set is there again
        torch.set_default_dtype(torch.float32)


@contextmanager
def another_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        assert torch.get_default_device().type == "meta"
        torch.set_default_device(None)


AMBIENT = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "bf16": lambda: torch.autocast("cpu", torch.bfloat16),
    "fp16": lambda: torch.autocast("cpu", torch.float16),
    "float64": doubles,
    "default device": another_device,
    "device": lambda: torch.device("meta"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, splits: Splits, tiny: dict[str, Any]) -> FinishedRun:
    return fit(splits, **{**tiny, "method": "mfw"}, run_dir=tmp_path_factory.mktemp("runs") / "plain")


@pytest.fixture(params=AMBIENT)
def ambient(request: pytest.FixtureRequest) -> AbstractContextManager[Any]:
    made: AbstractContextManager[Any] = AMBIENT[request.param]()
    return made


def test_training_computes_the_same(
    ambient: AbstractContextManager[Any], plain: FinishedRun, splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    with ambient:
        run = fit(splits, **{**tiny, "method": "mfw"}, run_dir=tmp_path / "run")
        (one_of_many,) = fit_many(
            [RunSpec.from_json({"source": splits.name, **tiny, "method": "mfw", "run_dir": tmp_path / "many"})],
            splits=splits,
        )
    weights = "model.safetensors"
    for path in (run.path, one_of_many.path):
        assert (path / weights).read_bytes() == (plain.path / weights).read_bytes()


def test_using_a_run_computes_the_same(
    ambient: AbstractContextManager[Any], plain: FinishedRun, splits: Splits, tmp_path: Path
) -> None:
    pixels = splits.test.images[:4]
    measured = diagnose_run(plain.path, splits=splits).kept()
    scores, adjusted = load_model(plain.path).scores(pixels), adjust(plain.path, splits=splits)
    with ambient:
        assert evaluate(plain.path, splits=splits) == plain.metrics
        assert adjust(plain.path, splits=splits) == adjusted
        assert np.array_equal(load_model(plain.path).scores(pixels), scores)
        assert diagnose_run(plain.path, splits=splits).kept() == measured
        assert export(plain.path, form="torch", output=tmp_path / "exported").difference < 1e-6


def test_products_are_computed_in_float32() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with undisturbed():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_products_of_one_kind_of_device_too() -> None:
    of_cpus = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    of_cpus.fp32_precision = "bf16"
    try:
        with undisturbed():
            assert of_cpus.fp32_precision == "ieee"
        assert of_cpus.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("place", "name", "own"),
    [(torch.backends.cudnn, "allow_tf32", False), (torch.backends.cudnn.conv, "fp32_precision", "ieee")],
)
def test_convolutions_are_computed_as_usual(place: Any, name: str, own: object) -> None:
    convolutions: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    before = getattr(place, name)
    setattr(place, name, own)
    try:
        with undisturbed(), timed_algorithms():
            assert convolutions.fp32_precision == "tf32"
        assert getattr(place, name) == own
        assert convolutions.fp32_precision != "tf32"
    finally:
        setattr(place, name, before)
    assert torch.backends.cudnn.allow_tf32


#: What programs set before a run, and after it.
BEFORE = [
    "",
    "b.fp32_precision = 'ieee'",
    "b.fp32_precision = 'tf32'",
    "b.fp32_precision = 'bf16'",
    "b.cudnn.fp32_precision = 'ieee'",
    "b.mkldnn.fp32_precision = 'bf16'",
    "b.cudnn.conv.fp32_precision = 'ieee'",
    "b.mkldnn.conv.fp32_precision = 'bf16'",
    "b.cudnn.allow_tf32 = False",
    "b.fp32_precision = 'ieee'; b.cudnn.conv.fp32_precision = 'tf32'",
    "b.fp32_precision = 'ieee'; b.cuda.matmul.fp32_precision = 'tf32'",
    "torch.set_float32_matmul_precision('medium')",
]
AFTER = ["", "b.fp32_precision = 'ieee'", "b.fp32_precision = 'tf32'", "b.fp32_precision = 'none'"]
#: Reads the settings after both, without a run between them and with one, each in a process whose settings are fresh.
COMPARE = """
import itertools, json, os, sys, torch
from procrustean.runs.torch_settings import undisturbed

b = torch.backends
before, after = json.loads(sys.argv[1])

def asked(read):
    try:
        return read()
    except RuntimeError:  # the older names, where newer ones contradict them
        return None

def settings():
    parts = (b, b.cudnn, b.cudnn.conv, b.cudnn.rnn, b.cuda.matmul, b.mkldnn, b.mkldnn.conv, b.mkldnn.matmul)
    older = asked(lambda: b.cudnn.allow_tf32), asked(torch.get_float32_matmul_precision)
    return [*(part.fp32_precision for part in parts), *older]

def settings_after(before, after, runs):
    read, write = os.pipe()
    if not os.fork():
        exec(before)
        during = None
        for _ in range(runs):
            with undisturbed():
                convolutions = b.cudnn.conv.fp32_precision, b.mkldnn.conv.fp32_precision
                during = *convolutions, asked(torch.get_float32_matmul_precision)
        exec(after)
        os.write(write, json.dumps([during, settings()]).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read, 10_000))

for first, then in itertools.product(before, after):
    (_, without), (during, found) = (settings_after(first, then, runs) for runs in (0, 1))
    assert found == without, f"{first!r}, a run, {then!r}: {found}, and without the run {without}"
    assert during == ["tf32", "none", "highest"], f"{first!r}: {during} in the run"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="settings of torch are fresh in new processes alone")
@pytest.mark.slow
def test_settings_of_float32_are_after_a_run_what_they_would_be_without() -> None:
    command = [sys.executable, "-W", "ignore", "-c", COMPARE, json.dumps([BEFORE, AFTER])]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compared.returncode == 0, compared.stderr


@pytest.mark.parametrize("deterministic", [False, True])
def test_algorithms_are_timed_unless_they_have_to_be_deterministic(
    deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", deterministic)
    with timed_algorithms():
        assert torch.backends.cudnn.benchmark is not deterministic
        assert torch.backends.cudnn.deterministic is deterministic
    assert not torch.backends.cudnn.benchmark
