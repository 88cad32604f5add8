"""Streams are used again by later runs: here with stand-ins, on a GPU by the tests of memory."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from procrustean.engine import device


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = itertools.cycle(range(device.DIFFERENT_STREAMS))  # as PyTorch deals them out

    def new(where: torch.device) -> Any:
        return SimpleNamespace(device=torch.device("cuda", where.index or 0), cuda_stream=next(handles))

    monkeypatch.setattr(torch.cuda, "Stream", new)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(device, "_idle", {})
    monkeypatch.setattr(device, "_dealt", set())


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


def drawn_by_others(number: int) -> None:
    """The program draws streams for itself, by which PyTorch comes round to those that were dealt before."""
    for _ in range(number):
        torch.cuda.Stream(torch.device("cuda"))


@pytest.mark.parametrize("drawn", [device.DIFFERENT_STREAMS - 1, 5 * device.DIFFERENT_STREAMS - 1])
def test_a_stream_in_use_is_not_dealt_again_when_pytorch_comes_round_to_it(drawn: int) -> None:
    cuda = torch.device("cuda")
    run = device.take_stream(cuda)
    drawn_by_others(drawn)
    assert device.take_stream(cuda, "copies").cuda_stream != run.cuda_stream


def test_copies_leave_the_streams_of_runs_alone() -> None:
    cuda = torch.device("cuda")
    run = device.take_stream(cuda)
    device.give_back(run)
    drawn_by_others(device.DIFFERENT_STREAMS - 1)
    copies = [device.take_stream(cuda, "copies").cuda_stream for _ in range(device.DIFFERENT_STREAMS - 1)]
    assert run.cuda_stream not in copies
    assert len(set(copies)) == device.DIFFERENT_STREAMS - 1
    assert device.take_stream(cuda) is run


def test_one_is_shared_only_where_all_are_in_use() -> None:
    taken = []
    for _ in range(device.DIFFERENT_STREAMS + 1):
        taken.append(device.take_stream(torch.device("cuda")).cuda_stream)
        drawn_by_others(1)
    assert len(set(taken[:-1])) == device.DIFFERENT_STREAMS
    assert taken[-1] in taken[:-1]
