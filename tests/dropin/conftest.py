"""Models of other libraries, small enough to train in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
