"""Samplers on two processes: in the loop of every framework these share the images of an epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from procrustean.balance import ClassBalancedSampler

for package in ("accelerate", "lightning", "transformers"):
    pytest.importorskip(package)

LABELS = [0] * 180 + [1] * 20


@pytest.mark.slow
def test_the_processes_share_an_epoch_in_every_loop(processes: Callable[..., list[str]]) -> None:
    shown = processes(Path(__file__).with_name("sharding_worker.py"))
    first, second = (json.loads(output.splitlines()[-1]) for output in shown)
    assert list(first) == [
        "plain", "accelerate", "dispatched", "unprepared", "lightning", "lightning_left_alone", "hugging_face"
    ]  # fmt: skip
    alone = ClassBalancedSampler(LABELS, seed=3, rank=0, world_size=1)
    for epoch in range(2):
        alone.set_epoch(epoch)
        for loop in first:
            assert len(first[loop][epoch]) == len(second[loop][epoch]) == 100, loop
            assert sorted(first[loop][epoch] + second[loop][epoch]) == sorted(alone), loop
