"""Losses of the methods against slow references in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from procrustean.errors import ConfigError, DataError
from procrustean.methods import make_method
from procrustean.methods.focal import FocalLoss
from procrustean.methods.ldam import LDAMLoss
from procrustean.objectives import Classify, CrossEntropy
from procrustean.types import Batch, Clock, Problem

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
COUNTS = (400, 90, 20, 4)
Reference = Callable[[Tensor, int], Tensor]


def scores(size: int = 9, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, generator=generator)
    return logits, torch.randint(classes, (size,), generator=generator)


def focal_of(gamma: float) -> Reference:
    def loss(row: Tensor, label: int) -> Tensor:
        p = row.exp()[label] / row.exp().sum()
        return (1 - p) ** gamma * -p.log()

    return loss


def ldam_of(counts: tuple[int, ...], max_margin: float, scale: float) -> Reference:
    def loss(row: Tensor, label: int) -> Tensor:
        margin = max_margin * (min(counts) / counts[label]) ** 0.25
        terms = [scale * (row[c] - margin if c == label else row[c]) for c in range(len(counts))]
        return -(terms[label] - torch.stack(terms).logsumexp(0))

    return loss


CASES = [
    pytest.param(FocalLoss(0.5), focal_of(0.5), id="focal 0.5"),
    pytest.param(FocalLoss(1.0), focal_of(1.0), id="focal 1"),
    pytest.param(FocalLoss(2.0), focal_of(2.0), id="focal 2"),
    pytest.param(LDAMLoss(COUNTS, 0.5, 30.0), ldam_of(COUNTS, 0.5, 30.0), id="ldam"),
    pytest.param(LDAMLoss(COUNTS, 0.3, 4.0), ldam_of(COUNTS, 0.3, 4.0), id="ldam of another scale"),
    pytest.param(CrossEntropy(), focal_of(0.0), id="cross-entropy"),
]


@pytest.mark.parametrize(("loss", "reference"), CASES)
class TestReference:
    def test_value_and_gradient(self, loss: CrossEntropy, reference: Reference) -> None:
        logits, y = scores()
        logits.requires_grad_()
        twin = logits.detach().double().requires_grad_()
        found = loss(logits, y)
        wanted = torch.stack([reference(twin[i], int(y[i])) for i in range(len(y))])
        assert found.shape == (9,)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
        upstream = torch.linspace(0.5, 2.0, 9)
        found.backward(upstream)
        wanted.backward(upstream.double())
        assert logits.grad is not None
        torch.testing.assert_close(logits.grad.double(), twin.grad, rtol=2e-5, atol=2e-5)

    def test_gradcheck(self, loss: CrossEntropy, reference: Reference) -> None:
        logits, y = scores(size=4)
        # The losses are computed in float32: wide steps, few digits.
        assert torch.autograd.gradcheck(
            lambda z: loss(z.float(), y).double(), (logits.double().requires_grad_(),), eps=1e-3, atol=2e-2
        )

    def test_far_out_scores_stay_finite(self, loss: CrossEntropy, reference: Reference) -> None:
        logits = torch.tensor([[1e4, -1e4, 0.0, 0.0], [-1e4, 1e4, 0.0, 0.0], [1e4, 1e4, 1e4, 1e4]])
        for y in (torch.tensor([0, 0, 0]), torch.tensor([1, 1, 3])):
            twin = logits.clone().requires_grad_()
            losses = loss(twin, y)
            losses.sum().backward()
            assert twin.grad is not None
            assert bool(losses.isfinite().all())
            assert bool(twin.grad.isfinite().all())

    def test_bf16_scores(self, loss: CrossEntropy, reference: Reference) -> None:
        logits, y = scores()
        rounded = logits.bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            found = loss(rounded, y)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, loss(rounded.float(), y))

    def test_never_negative(self, loss: CrossEntropy, reference: Reference) -> None:
        logits, y = scores(size=400, seed=3)
        assert bool((loss(20 * logits, y) >= 0).all())


class TestFocal:
    def test_gamma_zero_is_cross_entropy(self) -> None:
        logits, y = scores()
        assert torch.equal(FocalLoss(0.0)(logits, y), F.cross_entropy(logits, y, reduction="none"))

    @pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
    def test_well_classified_samples_count_less(self, gamma: float) -> None:
        logits, y = torch.tensor([[6.0, 0.0]]), torch.tensor([0])
        assert FocalLoss(gamma)(logits, y) < 0.5 * F.cross_entropy(logits, y)

    @pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 3.0])
    def test_gradient_of_a_certain_sample(self, gamma: float) -> None:
        logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
        FocalLoss(gamma)(logits, torch.tensor([0])).sum().backward()
        assert logits.grad is not None
        assert logits.grad.abs().max() < 1e-6

    @pytest.mark.parametrize("gamma", [-0.5, math.nan, math.inf])
    def test_gamma_out_of_range(self, gamma: float) -> None:
        with pytest.raises(ConfigError, match="gamma = "):
            FocalLoss(gamma)


class TestLDAM:
    def test_margins(self) -> None:
        wanted = [0.15811, 0.17970, 0.20424, 0.23209, 0.26383, 0.29977, 0.34068, 0.38722, 0.44050, 0.50000]
        np.testing.assert_allclose(LDAMLoss(C10_LONG_TAILED, 0.5, 30.0).margins, wanted, atol=5.1e-6)

    def test_margin_zero_is_scaled_cross_entropy(self) -> None:
        logits, y = scores()
        wanted = F.cross_entropy(30 * logits, y, reduction="none")
        torch.testing.assert_close(LDAMLoss(COUNTS, 0.0, 30.0)(logits, y), wanted)

    def test_a_margin_makes_the_loss_larger(self) -> None:
        logits, y = scores()
        with_margin, without = LDAMLoss(COUNTS, 0.5, 3.0)(logits, y), LDAMLoss(COUNTS, 0.0, 3.0)(logits, y)
        assert bool((with_margin > without).all())

    @pytest.mark.parametrize(
        ("margin", "scale"), [(-0.1, 30.0), (0.5, 0.0), (math.nan, 1.0), (0.5, math.inf), (math.inf, 1.0)]
    )
    def test_settings_out_of_range(self, margin: float, scale: float) -> None:
        with pytest.raises(ConfigError, match="max_margin = "):
            LDAMLoss(COUNTS, margin, scale)

    def test_classes_without_images(self) -> None:
        with pytest.raises(DataError, match="have no images"):
            LDAMLoss((5, 0), 0.5, 30.0)


def objective_of(name: str, **options: object) -> Classify:
    method = make_method(name, Problem(C10_LONG_TAILED, "long_tailed"), options)
    objective = method.stages[0].objective
    assert isinstance(objective, Classify)
    return objective


def minimised(objective: Classify, logits: Tensor, y: Tensor, epoch: int = 0) -> Tensor:
    order = torch.arange(len(y))
    value: Tensor = objective(
        torch.nn.Identity(),
        Batch(logits, y, order, order, {}),
        Clock(torch.tensor(epoch), torch.tensor(0.1), 200),
    )
    return value


class TestClassBalanced:
    @pytest.mark.parametrize(("beta", "first", "last"), [(0.9999, 0.05061, 3.99272), (0.999, 0.18119, 3.68832)])
    def test_weights(self, beta: float, first: float, last: float) -> None:
        weight = objective_of("class_balanced", beta=beta).weight
        assert weight is not None
        assert weight.weights[0].item() == pytest.approx(first, abs=5.1e-6)
        assert weight.weights[-1].item() == pytest.approx(last, abs=5.1e-6)

    def test_divides_by_the_batch_size(self) -> None:
        logits, y = scores(size=30, classes=10)
        objective = objective_of("class_balanced")
        assert objective.weight is not None
        losses = F.cross_entropy(logits.double(), y, reduction="none")
        wanted = sum(float(objective.weight.weights[y[i]]) * float(losses[i]) for i in range(30)) / 30
        assert minimised(objective, logits, y).item() == pytest.approx(wanted, rel=1e-6)

    def test_beta_zero_is_cross_entropy(self) -> None:
        logits, y = scores(size=30, classes=10)
        found = minimised(objective_of("class_balanced", beta=0.0), logits, y)
        torch.testing.assert_close(found, F.cross_entropy(logits, y))

    def test_with_focal_loss(self) -> None:
        logits, y = scores(size=30, classes=10)
        found = minimised(objective_of("class_balanced", beta=0.0, gamma=2.0), logits, y)
        torch.testing.assert_close(found, FocalLoss(2.0)(logits, y).mean())

    def test_deferred_weights_are_normalised_by_their_sum(self) -> None:
        logits, y = scores(size=30, classes=10)
        objective = objective_of("class_balanced", drw=True)
        assert objective.weight is not None
        torch.testing.assert_close(minimised(objective, logits, y, 159), F.cross_entropy(logits, y))
        weighted = F.cross_entropy(logits, y, weight=objective.weight.weights)
        torch.testing.assert_close(minimised(objective, logits, y, 160), weighted)


@pytest.mark.parametrize("name", ["erm", "focal", "ldam"])
def test_drw_is_the_weighted_mean_from_four_fifths_on(name: str) -> None:
    logits, y = scores(size=30, classes=10)
    plain, drw = objective_of(name), objective_of(name, drw=True)
    assert plain.weight is None
    assert drw.weight is not None
    torch.testing.assert_close(minimised(drw, logits, y, 159), minimised(plain, logits, y, 159))
    own = drw.weight.weights[y].double()
    wanted = (own * drw.loss(logits, y).double()).sum() / own.sum()
    torch.testing.assert_close(minimised(drw, logits, y, 160).double(), wanted, rtol=1e-6, atol=1e-7)
    assert minimised(drw, logits, y, 160).item() != pytest.approx(minimised(plain, logits, y).item())
