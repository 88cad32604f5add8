"""The Beta quantile table against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from procrustean.balance import beta_quantiles
from procrustean.balance.beta import TABLE_SIZE, from_uniform
from procrustean.base import ConfigError

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
