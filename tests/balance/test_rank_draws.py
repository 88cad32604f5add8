"""Draws of processes that are seeded alike: as good as independent ones, and equal where that is asked for."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest
import torch
from torch import Tensor

from procrustean import MFW
from procrustean.balance import Mix
from procrustean.balance.rank_draws import draws_of_rank

COUNTS = [500, 400, 20, 10]
LABELS = torch.arange(64) % 4


def mixed(rank: int | None, draw: Literal["sample", "batch"] = "sample", generator: bool = False) -> Mix:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        mix = MFW(COUNTS, rank=rank, draw=draw).sample(LABELS, torch.Generator().manual_seed(3) if generator else None)
    assert mix is not None
    return mix


def uniforms(rank: int, batches: int, size: int) -> tuple[Tensor, Tensor]:
    """Partners and uniforms of many batches, [batches, size] each."""
    generator = torch.Generator().manual_seed(0)
    plain = [(torch.randperm(size, generator=generator), torch.rand(size, generator=generator)) for _ in range(batches)]
    drawn = [draws_of_rank(rank, *numbers) if rank else numbers for numbers in plain]
    return torch.stack([partner for partner, _ in drawn]), torch.stack([u for _, u in drawn])


@pytest.mark.parametrize("draw", ["sample", "batch"])
def test_ranks_draw_apart_and_the_first_as_one_process_does(draw: Literal["sample", "batch"]) -> None:
    alone, first, second, third = (mixed(rank, draw) for rank in (None, 0, 1, 2))
    for value, wanted in zip(alone, first, strict=True):
        assert torch.equal(value, wanted)
    for one, other in ((first, second), (first, third), (second, third)):
        assert not torch.equal(one.partner, other.partner)
        assert not torch.equal(one.weight, other.weight)
    assert torch.equal(second.partner[second.inverse], torch.arange(64))


def test_a_generator_draws_alike_on_all_ranks() -> None:
    first, second = mixed(0, generator=True), mixed(1, generator=True)
    assert torch.equal(first.partner, second.partner)
    assert torch.equal(first.weight, second.weight)


def test_all_ranks_leave_the_global_generator_alike() -> None:
    states = []
    with torch.random.fork_rng(devices=[]):
        for rank in range(3):
            torch.manual_seed(3)
            MFW(COUNTS, rank=rank).sample(LABELS)
            states.append(torch.get_rng_state())
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])


@pytest.mark.parametrize("rank", [1, 2, 1023])
def test_the_numbers_are_uniform(rank: int) -> None:
    partners, u = uniforms(rank, batches=4000, size=5)
    assert partners.sort(dim=1).values.eq(torch.arange(5)).all()
    counted = torch.stack([torch.bincount(column, minlength=5) for column in partners.T]) / len(partners)
    assert (counted - 0.2).abs().max() < 0.03  # 4.7 standard deviations
    assert (0 <= u).all()
    assert (u < 1).all()
    steps = torch.linspace(0, 1, len(u.flatten()))
    assert (u.flatten().sort().values - steps).abs().max() < 0.015


def test_ranks_are_independent() -> None:
    drawn = [uniforms(rank, batches=4000, size=5) for rank in range(4)]
    shares = torch.stack([u.flatten() for _, u in drawn])
    assert (shares.corrcoef() - torch.eye(4)).abs().max() < 0.035
    for (one, _), (other, _) in itertools.pairwise(drawn):
        assert abs(float((one == other).float().mean()) - 0.2) < 0.015
