"""MFW on two processes: each mixes within its own batch, the gradients are averaged as ever; the example runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "balanced_ddp.py"


def free_ports(count: int) -> list[str]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [str(probe.getsockname()[1]) for probe in probes]


def test_two_processes(tmp_path: Path) -> None:
    script = Path(__file__).with_name("ddp_worker.py")
    ports = free_ports(2)
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0]}
    workers = [
        subprocess.Popen(
            [sys.executable, script, EXAMPLE, ports[1]],
            env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        for rank in range(2)
    ]
    try:
        outputs = [worker.communicate(timeout=240)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    if any(worker.returncode for worker in workers):
        pytest.fail("\n".join(outputs), pytrace=False)
    assert "2 processes: accuracy" in outputs[0]
