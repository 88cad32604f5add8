"""Mixing rows of a batch, Beta shares by a table, and the draws of several processes."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from procrustean import MFW
from procrustean.balance import Mix, beta_quantiles, blend
from procrustean.balance.mixing import TABLE_SIZE, MixPoint, draws_of_rank, from_uniform, inverse_permutation
from procrustean.base import ConfigError, LayerError

SHAPES = [(7,), (7, 3), (7, 2, 3), (7, 2, 3, 4)]


def random_mix(size: int, seed: int = 0) -> Mix:
    generator = torch.Generator().manual_seed(seed)
    partner = torch.randperm(size, generator=generator)
    return Mix(partner, inverse_permutation(partner), torch.rand(size, generator=generator) * 0.5)


def naive(z: Tensor, mix: Mix) -> Tensor:
    weights = mix.weight.to(z.dtype)
    rows = [
        (1 - weights[i]) * z[i] + weights[i] * z[int(mix.partner[i])]  # one sample at a time
        for i in range(len(z))
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_inverse_permutation(size: int) -> None:
    partner = torch.randperm(size, generator=torch.Generator().manual_seed(size))
    inverse = inverse_permutation(partner)
    assert torch.equal(partner[inverse], torch.arange(size))
    assert torch.equal(inverse[partner], torch.arange(size))


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_against_a_loop(shape: tuple[int, ...]) -> None:
    mix = random_mix(shape[0])
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    twin = z.detach().clone().requires_grad_()
    blended, wanted = blend(z, mix), naive(twin, mix)
    torch.testing.assert_close(blended, wanted, atol=1e-12, rtol=0)
    upstream = torch.randn(shape, dtype=torch.float64)
    blended.backward(upstream)
    wanted.backward(upstream)
    torch.testing.assert_close(z.grad, twin.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradcheck(shape: tuple[int, ...]) -> None:
    mix = random_mix(shape[0])
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: blend(z, mix), (z,))
    assert torch.autograd.gradgradcheck(lambda z: blend(z, mix), (z,))


def test_second_order_gradient_of_a_nonlinear_function() -> None:
    mix = random_mix(5)
    z = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda z: blend(z.sin(), mix).pow(3), (z,))


def test_weight_zero_returns_the_own_row_to_the_bit() -> None:
    partner = torch.tensor([1, 2, 0])
    mix = Mix(partner, inverse_permutation(partner), torch.tensor([0.0, 0.25, 0.0]))
    z = torch.randn(3, 50)
    blended = blend(z, mix)
    assert torch.equal(blended[[0, 2]], z[[0, 2]])
    assert not torch.equal(blended[1], z[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_format_of_the_feature_is_kept(dtype: torch.dtype) -> None:
    mix = random_mix(6)
    z = torch.randn(6, 4).to(dtype)
    blended = blend(z, mix)
    assert blended.dtype == dtype
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        blended.double(), naive(z.double(), mix), atol=max(tolerance, 1e-6), rtol=max(tolerance, 1e-6)
    )


def test_channels_last_memory_is_kept() -> None:
    mix = random_mix(4)
    plain = torch.randn(4, 8, 5, 3, dtype=torch.float64, requires_grad=True)
    z = plain.detach().to(memory_format=torch.channels_last).requires_grad_()
    blended, wanted = blend(z, mix), naive(plain, mix)
    assert blended.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(blended, wanted, atol=1e-12, rtol=0)
    upstream = torch.randn(4, 8, 5, 3, dtype=torch.float64)
    wanted.backward(upstream)
    blended.backward(upstream.to(memory_format=torch.channels_last))
    torch.testing.assert_close(z.grad, plain.grad, atol=1e-12, rtol=0)


class Outputs(nn.Module):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> object:
        return self.value


def test_a_point_without_a_mix_changes_nothing_and_can_be_removed() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    keys = list(model.state_dict())
    x = torch.randn(4, 3)
    plain = model(x)
    point = MixPoint(model[0], "0")
    assert list(model.state_dict()) == keys
    assert torch.equal(model(x), plain)
    point.mix = random_mix(4)
    torch.testing.assert_close(model(x), blend(model[0].forward(x), point.mix).tanh())
    assert not torch.equal(model(x), plain)
    point.remove()
    assert torch.equal(model(x), plain)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ((None, torch.zeros(4, 2)), "layer 'neck' returns tuple that does not begin with a floating-point tensor"),
        ({"out": torch.zeros(4, 2)}, "layer 'neck' returns dict"),
        (torch.zeros(4, 2, dtype=torch.int64), "layer 'neck' returns Tensor, not a floating-point tensor"),
        (torch.tensor(1.0), r"returns shape \(\) for 4 labels"),
        (torch.zeros(8, 2), r"returns shape \(8, 2\) for 4 labels; its first dimension"),
    ],
)
def test_outputs_that_cannot_be_mixed(output: object, message: str) -> None:
    layer = Outputs(output)
    point = MixPoint(layer, "neck")
    point.mix = random_mix(4)
    with pytest.raises(LayerError, match=message):
        layer(torch.zeros(4, 2))


ALPHAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_mean_and_variance(alpha: float) -> None:
    table = beta_quantiles(alpha).double()
    assert table.mean().item() == pytest.approx(0.5, abs=1e-6)
    assert table.var(correction=0).item() == pytest.approx(stats.beta.var(alpha, alpha), rel=1e-3)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_distance_from_the_distribution(alpha: float) -> None:
    # The lower half, the upper one being its mirror image in which float32 cannot tell 1 - 1e-9 from 1.
    table = beta_quantiles(alpha).double().numpy()
    inside = (table > 1e-20) & (table <= 0.5)
    wanted = ((np.arange(TABLE_SIZE) + 0.5) / TABLE_SIZE)[inside]
    assert inside.sum() > TABLE_SIZE * 0.4
    # Kolmogorov-Smirnov: half an entry is what a table of this size cannot avoid.
    assert np.abs(stats.beta.cdf(table[inside], alpha, alpha) - wanted).max() < 0.6 / TABLE_SIZE


@pytest.mark.parametrize("alpha", ALPHAS)
def test_entries_are_mid_quantiles(alpha: float) -> None:
    wanted = stats.beta.ppf((np.arange(TABLE_SIZE) + 0.5) / TABLE_SIZE, alpha, alpha)
    np.testing.assert_allclose(beta_quantiles(alpha).numpy(), wanted, atol=2e-6)


@pytest.mark.parametrize("alpha", [0.001, *ALPHAS, 10_000.0])
def test_table_is_sorted_symmetric_and_in_range(alpha: float) -> None:
    table = beta_quantiles(alpha)
    assert table.shape == (TABLE_SIZE,)
    assert table.dtype == torch.float32
    assert 0.0 <= table[0] <= table[-1] <= 1.0
    assert bool((table.diff() >= 0).all())
    torch.testing.assert_close(table + table.flip(0), torch.ones(TABLE_SIZE), atol=2e-6, rtol=0)


def test_tables_are_independent_copies() -> None:
    beta_quantiles(3.0).zero_()
    assert beta_quantiles(3.0).mean().item() == pytest.approx(0.5, abs=1e-6)


def test_a_table_made_first_for_another_device_serves_all() -> None:
    with torch.device("meta"):
        assert beta_quantiles(3.21).is_meta
    assert beta_quantiles(3.21).mean().item() == pytest.approx(0.5, abs=1e-6)


def test_draws_follow_the_distribution() -> None:
    u = torch.rand(50_000, generator=torch.Generator().manual_seed(0))
    draws = from_uniform(beta_quantiles(0.5), u).numpy()
    assert stats.kstest(draws, stats.beta(0.5, 0.5).cdf).statistic < 0.008


def test_uniforms_map_to_entries_of_equal_share() -> None:
    table = torch.arange(TABLE_SIZE, dtype=torch.float32)
    u = torch.arange(4 * TABLE_SIZE) / (4 * TABLE_SIZE)
    assert torch.equal(from_uniform(table, u), table.repeat_interleave(4))


def test_the_ends_of_the_unit_interval() -> None:
    table = beta_quantiles(2.0)
    u = torch.tensor([[0.0], [1 - 2.0**-24], [1.0]])  # 1.0 itself: what rounding to a short format can make
    assert torch.equal(from_uniform(table, u), table[[0, -1, -1]].unsqueeze(1))


@pytest.mark.parametrize("alpha", [0.0, -1.0, 0.0005, 20_000.0, math.nan, math.inf])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ConfigError, match="needs alpha from"):
        beta_quantiles(alpha)


RANK_COUNTS = [500, 400, 20, 10]
RANK_LABELS = torch.arange(64) % 4


def mix_of(rank: int | None, draw: Literal["sample", "batch"] = "sample", generator: bool = False) -> Mix:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        mix = MFW(RANK_COUNTS, rank=rank, draw=draw).sample(
            RANK_LABELS, torch.Generator().manual_seed(3) if generator else None
        )
    assert mix is not None
    return mix


def uniforms_of(rank: int, batches: int, size: int) -> tuple[Tensor, Tensor]:
    """Partners and uniforms of many batches, [batches, size] each."""
    generator = torch.Generator().manual_seed(0)
    plain = [(torch.randperm(size, generator=generator), torch.rand(size, generator=generator)) for _ in range(batches)]
    drawn = [draws_of_rank(rank, *numbers) if rank else numbers for numbers in plain]
    return torch.stack([partner for partner, _ in drawn]), torch.stack([u for _, u in drawn])


@pytest.mark.parametrize("draw", ["sample", "batch"])
def test_ranks_draw_apart_and_the_first_as_one_process_does(draw: Literal["sample", "batch"]) -> None:
    alone, first, second, third = (mix_of(rank, draw) for rank in (None, 0, 1, 2))
    for value, wanted in zip(alone, first, strict=True):
        assert torch.equal(value, wanted)
    for one, other in ((first, second), (first, third), (second, third)):
        assert not torch.equal(one.partner, other.partner)
        assert not torch.equal(one.weight, other.weight)
    assert torch.equal(second.partner[second.inverse], torch.arange(64))


def test_a_generator_draws_alike_on_all_ranks() -> None:
    first, second = mix_of(0, generator=True), mix_of(1, generator=True)
    assert torch.equal(first.partner, second.partner)
    assert torch.equal(first.weight, second.weight)


def test_all_ranks_leave_the_global_generator_alike() -> None:
    states = []
    with torch.random.fork_rng(devices=[]):
        for rank in range(3):
            torch.manual_seed(3)
            MFW(RANK_COUNTS, rank=rank).sample(RANK_LABELS)
            states.append(torch.get_rng_state())
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])


@pytest.mark.parametrize("rank", [1, 2, 1023])
def test_the_numbers_are_uniform(rank: int) -> None:
    partners, u = uniforms_of(rank, batches=4000, size=5)
    assert partners.sort(dim=1).values.eq(torch.arange(5)).all()
    counted = torch.stack([torch.bincount(column, minlength=5) for column in partners.T]) / len(partners)
    assert (counted - 0.2).abs().max() < 0.03  # 4.7 standard deviations
    assert (0 <= u).all()
    assert (u < 1).all()
    steps = torch.linspace(0, 1, len(u.flatten()))
    assert (u.flatten().sort().values - steps).abs().max() < 0.015


def test_ranks_are_independent() -> None:
    drawn = [uniforms_of(rank, batches=4000, size=5) for rank in range(4)]
    shares = torch.stack([u.flatten() for _, u in drawn])
    assert (shares.corrcoef() - torch.eye(4)).abs().max() < 0.035
    for (one, _), (other, _) in itertools.pairwise(drawn):
        assert abs(float((one == other).float().mean()) - 0.2) < 0.015
