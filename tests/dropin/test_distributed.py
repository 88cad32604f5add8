"""MFW on two processes: each mixes within its own batch, the gradients are averaged as ever; the example runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_two_processes(processes: Callable[..., list[str]]) -> None:
    processes(Path(__file__).with_name("ddp_worker.py"))


@pytest.mark.slow
def test_the_example(processes: Callable[..., list[str]]) -> None:
    assert "2 processes: accuracy" in processes(EXAMPLES / "balanced_ddp.py", "--epochs", "1")[0]


@pytest.mark.slow
def test_the_example_of_a_sampler_on_accelerate(
    processes: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")  # as `accelerate launch --cpu` does
    first, second = processes(EXAMPLES / "accelerate_sampler.py", "--epochs", "1")
    assert "balanced accuracy" in first
    assert "balanced accuracy" not in second
