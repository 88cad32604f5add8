"""MFW on two processes: each mixes within its own batch, the gradients are averaged as ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_two_processes(tmp_path: Path) -> None:
    worker = Path(__file__).with_name("ddp_worker.py")
    command = [sys.executable, worker]
    workers = [
        subprocess.Popen(
            [*command, str(rank), tmp_path / "meeting"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(2)
    ]
    outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        pytest.fail("\n".join(outputs), pytrace=False)
