"""Streams are used again by later runs: here with stand-ins, on a GPU by the tests of memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from procrustean.engine import device


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    def new(where: torch.device) -> Any:
        return SimpleNamespace(device=torch.device("cuda", where.index or 0))

    monkeypatch.setattr(torch.cuda, "Stream", new)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(device, "_idle", {})


def test_one_that_is_in_use_is_not_lent_twice() -> None:
    cuda = torch.device("cuda")
    first, second = device.take_stream(cuda), device.take_stream(cuda)
    assert first is not second
    device.give_back(first)
    assert device.take_stream(torch.device("cuda:0")) is first, "cuda is its current GPU, whatever its spelling"
    assert device.take_stream(cuda) is not second


def test_gpus_do_not_share_theirs() -> None:
    device.give_back(device.take_stream(torch.device("cuda:1")))
    assert device.take_stream(torch.device("cuda:0")).device.index == 0
    assert device.take_stream(torch.device("cuda:1")).device.index == 1
