"""Models of other libraries, small enough to train in a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

COUNTS = [500, 400, 20, 10]


@pytest.fixture(autouse=True)
def own_random_numbers() -> Iterator[None]:
    """Models and loops here draw from the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def batch() -> Callable[..., tuple[Tensor, Tensor]]:
    """`batch(size)` makes six images with their labels."""

    def make(size: int = 32, images: int = 6) -> tuple[Tensor, Tensor]:
        return torch.randn(images, 3, size, size), torch.arange(images) % len(COUNTS)

    return make


class Convolutions(nn.Module):
    """A model of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, len(COUNTS))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layer2(self.layer1(x)).mean((2, 3)))
        return scores


@pytest.fixture
def convolutions() -> Callable[[], nn.Module]:
    return Convolutions


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def processes(tmp_path: Path) -> Callable[..., list[str]]:
    """`processes(script, *arguments, count=2)` runs a script as torchrun would; what each process has printed."""

    def run(script: Path, *arguments: str, count: int = 2) -> list[str]:
        beside = [str(Path(__file__).parents[1] / "docs"), os.environ.get("PYTHONPATH", "")]
        variables = {
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": free_port(),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(filter(None, beside)),  # missing_operators
        }
        workers = [
            subprocess.Popen(
                [sys.executable, script, *arguments],
                env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
            )
            for rank in range(count)
        ]
        try:
            outputs = [worker.communicate(timeout=240) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        if any(worker.returncode for worker in workers):
            pytest.fail("\n".join(error for _, error in outputs), pytrace=False)
        return [output for output, _ in outputs]

    return run
