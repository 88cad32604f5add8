"""MFW on two processes: each mixes within its own batch, the gradients are averaged as ever; the example runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "balanced_ddp.py"


def test_two_processes(processes: Callable[..., list[str]]) -> None:
    processes(Path(__file__).with_name("ddp_worker.py"))


def test_the_example(processes: Callable[..., list[str]]) -> None:
    assert "2 processes: accuracy" in processes(EXAMPLE, "--epochs", "1")[0]
