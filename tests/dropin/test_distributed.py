"""MFW on two processes: each mixes within its own batch, the gradients are averaged as ever; the example runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "balanced_ddp.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_two_processes(tmp_path: Path) -> None:
    worker = Path(__file__).with_name("ddp_worker.py")
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    workers = [
        subprocess.Popen(
            [sys.executable, worker, EXAMPLE],
            env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        for rank in range(2)
    ]
    outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        pytest.fail("\n".join(outputs), pytrace=False)
    assert "2 processes: accuracy" in outputs[0]
