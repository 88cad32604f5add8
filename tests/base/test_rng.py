"""Streams of random numbers: pinned values, independence, uniformity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from procrustean.base import Stream
from procrustean.base.random_numbers import torch_seed


class TestPinned:
    """What every published run has drawn: a change of these numbers is a change of all results."""

    def test_raw(self) -> None:
        wanted = [6629014324746371640, 9289649223947522919, 16477982032893219568]
        assert Stream(0, "order", 0, 0).raw(3).tolist() == wanted

    def test_permutation(self) -> None:
        assert Stream(0, "order", 0, 0).permutation(8).tolist() == [4, 0, 5, 7, 1, 3, 2, 6]

    def test_permutations(self) -> None:
        wanted = [[2, 0, 1, 3, 4], [1, 2, 4, 0, 3]]
        assert Stream(12345, "partner", 1, 2).permutations(2, 5).tolist() == wanted

    def test_integers(self) -> None:
        wanted = [[7, 4, 3, 8], [8, 6, 8, 4]]
        assert Stream(0, "crop", 0, 0).integers(9, 2, 4).tolist() == wanted

    def test_uniforms(self) -> None:
        wanted = ["0x1.c47c6p-1", "0x1.e355p-6", "0x1.8619b8p-3", "0x1.0330fap-1"]
        assert Stream(1, "u.mfw", 0, 7).uniforms(4).tolist() == [float.fromhex(v) for v in wanted]

    def test_seed_of_the_weights(self) -> None:
        assert torch_seed(0, "weights") == 137670757127361152
        assert torch_seed(3, "weights") == 5129003976240168634


def test_the_same_purpose_gives_the_same_numbers() -> None:
    first, second = Stream(7, "flip", 1, 3), Stream(7, "flip", 1, 3)
    assert np.array_equal(first.raw(10), second.raw(10))
    assert np.array_equal(first.uniforms(3, 2), second.uniforms(3, 2))


def test_a_stream_goes_on() -> None:
    whole, parts = Stream(0, "a").raw(10), Stream(0, "a")
    assert np.array_equal(np.concatenate([parts.raw(4), parts.raw(6)]), whole)


PURPOSES = [
    (0, "order", 0, 0),
    (1, "order", 0, 0),
    (0, "partner", 0, 0),
    (0, "order", 1, 0),
    (0, "order", 0, 1),
    (0, "order"),
    (0, "order", 0),
    (0, "order", "0", 0),
    (-1, "order", 0, 0),
    (2**70, "order", 0, 0),
]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(PURPOSES, 2)))
def test_different_purposes_are_independent(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = Stream(*first).uniforms(2000), Stream(*second).uniforms(2000)
    assert not np.isin(a, b).mean() > 0.01
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.09


def test_numpy_integers_are_the_same_seed() -> None:
    assert np.array_equal(Stream(np.int64(4), "a").raw(2), Stream(4, "a").raw(2))  # type: ignore[arg-type]


class TestUniforms:
    def test_shape_type_and_range(self) -> None:
        u = Stream(0, "u").uniforms(1000, 3, 2)
        assert u.shape == (1000, 3, 2)
        assert u.dtype == np.float32
        assert 0 <= u.min() < u.max() < 1
        assert Stream(0, "u").uniforms(0, 3).shape == (0, 3)

    def test_they_are_uniform(self) -> None:
        u = Stream(0, "u").uniforms(20_000)
        assert stats.kstest(u, "uniform").statistic < 0.012
        assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.03

    def test_the_largest_is_below_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = Stream(0, "u")
        monkeypatch.setattr(stream, "raw", lambda count: np.full(count, 2**64 - 1, dtype=np.uint64))
        assert stream.uniforms(2).tolist() == [1 - 2.0**-24] * 2


class TestIntegers:
    def test_every_value_is_as_likely(self) -> None:
        values = Stream(0, "i").integers(9, 18_000)
        assert values.dtype == np.int64
        assert stats.chisquare(np.bincount(values, minlength=9)).pvalue > 1e-3
        assert set(values.tolist()) == set(range(9))

    @pytest.mark.parametrize("high", [1, 2, 3, 7, 9, 10, 255, 2**31 + 1, 2**40 - 1])
    def test_high_is_never_reached(self, high: int, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = Stream(0, "i")
        monkeypatch.setattr(stream, "raw", lambda count: np.full(count, 2**64 - 1, dtype=np.uint64))
        assert stream.integers(high, 1).tolist() == [high - 1]


class TestPermutations:
    @pytest.mark.parametrize("count", [0, 1, 2, 100])
    def test_every_number_once(self, count: int) -> None:
        assert sorted(Stream(0, "p").permutation(count).tolist()) == list(range(count))
        rows = Stream(0, "p").permutations(4, count)
        assert rows.shape == (4, count)
        assert (np.sort(rows, axis=1) == np.arange(count)).all()

    def test_every_order_is_as_likely(self) -> None:
        rows = Stream(0, "p").permutations(6000, 3)
        seen = np.unique(rows @ np.array([9, 3, 1]), return_counts=True)[1]
        assert len(seen) == 6
        assert stats.chisquare(seen).pvalue > 1e-3

    def test_rows_differ(self) -> None:
        rows = Stream(0, "p").permutations(50, 20)
        assert len({tuple(row) for row in rows.tolist()}) == 50


def test_seeds_for_torch_fit_and_differ() -> None:
    seeds = [torch_seed(seed, "weights") for seed in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert torch_seed(0, "weights") != torch_seed(0, "head")
