"""Class weights and the schedule that defers them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from procrustean.balance import Clock
from procrustean.balance.weights import (
    DRW,
    DeferredWeights,
    FixedWeights,
    deferred,
    effective_number,
    inverse_frequency,
    inverse_square_root,
    power_law,
)
from procrustean.base import ConfigError, DataError

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
C10_STEP = (5000,) * 5 + (50,) * 5
C100_LONG_TAILED = tuple(int(500 * 0.01 ** (i / 99)) for i in range(100))
C100_STEP = (500,) * 50 + (5,) * 50


def clock(epoch: int, epochs: int) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(0.1), epochs)


@pytest.mark.parametrize(
    ("beta", "wanted"),
    [
        (0.9999, [0.05061, 0.07690, 0.12113, 0.19504, 0.31881, 0.52459, 0.86835, 1.44263, 2.40922, 3.99272]),
        (0.999, [0.18119, 0.18941, 0.21574, 0.27286, 0.37848, 0.56058, 0.86880, 1.38616, 2.25845, 3.68832]),
    ],
)
def test_effective_numbers_of_a_long_tail(beta: float, wanted: list[float]) -> None:
    np.testing.assert_allclose(effective_number(C10_LONG_TAILED, beta), wanted, atol=5.1e-6)


def test_effective_numbers_of_other_sets() -> None:
    step = effective_number(C10_STEP)
    assert step[0].item() == pytest.approx(0.02503, abs=5.1e-6)
    assert step[-1].item() == pytest.approx(1.97497, abs=5.1e-6)
    tail = effective_number(C100_LONG_TAILED)
    assert tail[0].item() == pytest.approx(0.04488, abs=5.1e-6)
    assert tail[-1].item() == pytest.approx(4.37831, abs=5.1e-6)


@pytest.mark.parametrize(
    ("counts", "mean"),
    [(C10_LONG_TAILED, 0.171), (C10_STEP, 0.044), (C100_LONG_TAILED, 0.203), (C100_STEP, 0.040)],
)
def test_mean_weight_of_a_training_image(counts: tuple[int, ...], mean: float) -> None:
    share = torch.tensor(counts) / sum(counts)
    assert (share * effective_number(counts)).sum().item() == pytest.approx(mean, abs=5.1e-4)


def test_inverse_frequency_of_a_long_tail() -> None:
    wanted = [0.04024, 0.06713, 0.11202, 0.18680, 0.31191, 0.51985, 0.86717, 1.44736, 2.42389, 4.02365]
    np.testing.assert_allclose(inverse_frequency(C10_LONG_TAILED), wanted, atol=5.1e-6)
    np.testing.assert_allclose(inverse_frequency([4, 1], power=0.5), [2 / 3, 4 / 3], rtol=1e-6)
    assert inverse_frequency(C10_LONG_TAILED, power=0.0).tolist() == [1.0] * 10


@pytest.mark.parametrize("exponent", [-1.0, -0.5, -0.25, 0.0, 0.5, 1.0])
def test_powers_against_a_loop(exponent: float) -> None:
    raw = [n**exponent for n in C10_LONG_TAILED]
    np.testing.assert_allclose(power_law(C10_LONG_TAILED, exponent), [10 * w / sum(raw) for w in raw], rtol=1e-6)


def test_special_powers() -> None:
    assert torch.equal(power_law(C10_LONG_TAILED, -1.0), inverse_frequency(C10_LONG_TAILED))
    assert torch.equal(power_law(C10_LONG_TAILED, -0.5), inverse_square_root(C10_LONG_TAILED))
    assert power_law(C10_LONG_TAILED, 0.0).tolist() == [1.0] * 10
    np.testing.assert_allclose(inverse_square_root([9, 1]), [0.5, 1.5])


@pytest.mark.parametrize("exponent", [-500.0, 500.0])
def test_large_powers_do_not_overflow(exponent: float) -> None:
    weights = power_law(C10_LONG_TAILED, exponent)
    assert weights.sum().item() == pytest.approx(10)
    assert weights.max().item() == pytest.approx(10)


@pytest.mark.parametrize("exponent", [math.nan, math.inf])
def test_exponent_out_of_range(exponent: float) -> None:
    with pytest.raises(ConfigError, match="a power of the class counts needs a finite one"):
        power_law([5, 3], exponent)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.9999, 0.999999999])
def test_weights_sum_to_the_number_of_classes(beta: float) -> None:
    weights = effective_number(C100_LONG_TAILED, beta)
    assert weights.dtype == torch.float32
    assert weights.double().sum().item() == pytest.approx(100, rel=1e-6)
    assert bool((weights.diff() >= 0).all())


def test_limits_of_the_effective_number() -> None:
    assert effective_number(C10_LONG_TAILED, 0.0).tolist() == [1.0] * 10
    nearly_one = effective_number(C10_LONG_TAILED, 1 - 1e-12)
    np.testing.assert_allclose(nearly_one, inverse_frequency(C10_LONG_TAILED), rtol=1e-6)


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5, math.nan])
def test_beta_out_of_range(beta: float) -> None:
    with pytest.raises(ConfigError, match="effective numbers need 0 <= beta < 1"):
        effective_number([5, 3], beta)


def test_classes_without_images() -> None:
    with pytest.raises(DataError, match="have no images"):
        effective_number([5, 0])
    with pytest.raises(DataError, match="have no images"):
        inverse_frequency([5, 0])


def test_fixed_weights_do_not_look_at_the_clock() -> None:
    weights = FixedWeights(torch.tensor([0.5, 1.5]))
    assert weights(clock(0, 10)).tolist() == weights(clock(9, 10)).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("epochs", "start", "first"),
    [(200, 0.8, 160), (300, 0.8, 240), (90, 0.8, 72), (7, 0.8, 5), (90, 0.7, 63), (10, 0.0, 0), (1, 0.8, 0)],
)
def test_weights_are_deferred_until_their_epoch(epochs: int, start: float, first: int) -> None:
    module = DeferredWeights(torch.tensor([0.5, 1.5]), start)
    found = [module(clock(epoch, epochs)).tolist() for epoch in range(epochs)]
    assert found == [[1.0, 1.0]] * first + [[0.5, 1.5]] * (epochs - first)


def test_never_starting() -> None:
    assert DeferredWeights(torch.tensor([0.5, 1.5]), 1.0)(clock(9, 10)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("start", [-0.1, 1.1, math.nan])
def test_start_out_of_range(start: float) -> None:
    with pytest.raises(ConfigError, match="DRW starts at a share of the epochs"):
        DeferredWeights(torch.ones(2), start)


def test_what_drw_stands_for() -> None:
    assert deferred(C10_STEP, False) is None
    module = deferred(C10_STEP, True)
    assert module is not None
    assert module.start == 0.8
    assert torch.equal(module.weights, effective_number(C10_STEP, 0.9999))


def test_weights_move_with_the_module() -> None:
    module = DeferredWeights(torch.ones(2)).to(torch.float64)
    assert module.weights.dtype == torch.float64
    assert list(module.state_dict()) == ["weights"]


class TestDRW:
    """The schedule for other people's loops says what the trainer's own says."""

    COUNTS = (500, 60, 7)

    @pytest.mark.parametrize(("epochs", "start"), [(5, 0.8), (200, 0.8), (90, 0.7), (7, 0.0), (3, 1.0)])
    def test_the_weights_of_the_trainer_in_every_epoch(self, epochs: int, start: float) -> None:
        ours, theirs = DRW(self.COUNTS, epochs, start=start), deferred(self.COUNTS, True, start=start)
        assert theirs is not None
        for epoch in range(epochs):
            clock = Clock(torch.tensor(epoch), torch.tensor(0.1), epochs)
            assert torch.equal(ours(epoch), theirs(clock))

    def test_parts_of_epochs_and_steps(self) -> None:
        drw = DRW(self.COUNTS, 10)
        assert torch.equal(drw(7.99), torch.ones(3))
        assert torch.equal(drw(8.0), effective_number(self.COUNTS))
        assert torch.equal(DRW(self.COUNTS, 3.0)(2), effective_number(self.COUNTS))  # int(0.8 * 3) is 2
        assert DRW(self.COUNTS, np.int64(10)).first == 8
        assert DRW(self.COUNTS, 1000)(800).sum().item() == pytest.approx(3)

    @pytest.mark.parametrize("epoch", [-1, -0.5, float("nan"), "1", None])
    def test_epochs_that_there_are_not(self, epoch: Any) -> None:
        with pytest.raises(ConfigError, match=rf"epoch = {epoch!r} received; epochs are counted from 0, so .* below 5"):
            DRW(self.COUNTS, 5)(epoch)

    def test_epochs_past_the_end_keep_the_weights(self) -> None:
        assert torch.equal(DRW(self.COUNTS, 5)(6), effective_number(self.COUNTS))

    def test_the_weighted_mean_is_that_of_cross_entropy(self) -> None:
        logits, labels = torch.randn(8, 3, dtype=torch.float64), torch.arange(8) % 3
        drw = DRW(self.COUNTS, 10).double()
        losses = F.cross_entropy(logits, labels, reduction="none")
        for epoch in (0, 9):
            wanted = F.cross_entropy(logits, labels, weight=drw(epoch))
            torch.testing.assert_close(drw.weighted_mean(losses, labels, epoch), wanted)
        torch.testing.assert_close(drw.weighted_mean(losses, labels, 0), losses.mean())

    def test_a_model_that_is_built_without_memory_and_filled_later(self) -> None:
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(2, 3), DRW(self.COUNTS, 10))
        assert torch.equal(model.to_empty(device="cpu")[1](9), DRW(self.COUNTS, 10)(9))

    def test_a_change_of_precision_and_back_loses_nothing(self) -> None:
        assert torch.equal(DRW(self.COUNTS, 10).half().float()(9), DRW(self.COUNTS, 10)(9))

    def test_it_leaves_no_trace_in_a_state_dict(self) -> None:
        assert not DRW(self.COUNTS, 10).state_dict()

    @pytest.mark.parametrize("settings", [{"epochs": 0}, {"epochs": "ten"}, {"epochs": 10, "start": 1.5}])
    def test_errors(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            DRW(self.COUNTS, **settings)


@pytest.mark.parametrize("label", [-1, 3])
def test_the_weighted_mean_refuses_labels_that_name_no_class(label: int) -> None:
    with pytest.raises(DataError, match="received, but there are 3 classes"):
        DRW([80, 30, 10], epochs=10).weighted_mean(torch.ones(2), torch.tensor([0, label]), 9)


def test_the_weighted_mean_takes_labels_of_every_integer_type() -> None:
    drw, losses, labels = DRW([80, 30, 10], epochs=10), torch.rand(3), torch.arange(3)
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.int16, torch.int32):
        assert torch.equal(drw.weighted_mean(losses, labels.to(dtype), 9), drw.weighted_mean(losses, labels, 9))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_the_weighted_mean_refuses_losses_that_are_not_one_per_sample(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="received for 3 labels; give one per sample"):
        DRW([80, 30, 10], epochs=10).weighted_mean(torch.ones(shape), torch.arange(3), 9)


@pytest.mark.parametrize("labels", [torch.eye(3), torch.arange(3.0), torch.ones(3, dtype=torch.bool)])
def test_the_weighted_mean_refuses_labels_that_are_no_class_indices(labels: torch.Tensor) -> None:
    with pytest.raises(DataError, match="give class indices, integers of shape"):
        DRW([80, 30, 10], epochs=10).weighted_mean(torch.ones(3), labels, 9)
