"""Runs one after the other leave nothing behind in the process."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from procrustean.data import Splits
from procrustean.records import RunSpec
from procrustean.runs import fit_many

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts what Linux shows in /proc")


def megabytes() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def tensors() -> int:
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_neither_memory_nor_handles_nor_threads_grow(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    def train(first: int, last: int) -> None:
        methods = ("erm", "mfw", "crt")
        configs = [
            RunSpec("stripes", **{**tiny, "method": methods[n % 3]}, run_dir=tmp_path / str(n))
            for n in range(first, last)
        ]
        outcomes = fit_many(configs, splits=splits)
        assert [outcome.error for outcome in outcomes] == [None] * len(configs)

    train(0, 6)
    gc.collect()
    before = megabytes(), handles(), threading.active_count(), tensors()
    train(6, 18)
    gc.collect()
    assert handles() == before[1]
    assert threading.active_count() == before[2]
    assert tensors() == before[3]
    assert megabytes() - before[0] < 8
