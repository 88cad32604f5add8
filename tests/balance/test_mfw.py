"""MFW as a function: class strengths, draws, values, gradients, errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import MFW, Mix, beta_quantiles
from procrustean.balance.mixing import inverse_permutation
from procrustean.base import ConfigError, DataError

C10_LONG_TAILED = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
C10_STEP = [5000] * 5 + [50] * 5


def long_tailed(largest: int, classes: int, rho: float) -> list[int]:
    return [int(largest * (1 / rho) ** (i / (classes - 1))) for i in range(classes)]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def swapping(monkeypatch: pytest.MonkeyPatch, partner: list[int]) -> None:
    """Let every permutation drawn be this one."""
    monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.tensor(partner[:n]))


@pytest.fixture(autouse=True)
def no_unexpected_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class TestStrength:
    def test_geometric(self) -> None:
        mfw = MFW(C10_LONG_TAILED)
        assert mfw.kind == "long_tailed"
        assert (mfw.alpha, mfw.beta, mfw.std, mfw.draw) == (1.0, 2.0, "geometric", "sample")
        np.testing.assert_allclose(mfw.strength, [0.5] * 5 + [0.0] * 5, atol=5e-5)

    @pytest.mark.parametrize("beta", [0.01, 0.1, 0.5, 1.0, 2.0])
    def test_geometric_is_sharp_for_every_beta(self, beta: float) -> None:
        np.testing.assert_allclose(MFW(C10_LONG_TAILED, beta=beta).strength, [0.5] * 5 + [0.0] * 5, atol=5e-4)

    def test_arithmetic_with_the_population_deviation(self) -> None:
        wanted = [0.4061, 0.3463, 0.3019, 0.2734, 0.2559, 0.2454, 0.2391, 0.2354, 0.2331, 0.2318]
        np.testing.assert_allclose(MFW(C10_LONG_TAILED, std="arithmetic").strength, wanted, atol=5.1e-5)

    @pytest.mark.parametrize(
        ("counts", "first", "last"),
        [
            (long_tailed(5000, 10, 10), 0.3843, 0.2031),
            (long_tailed(5000, 10, 200), 0.4098, 0.2367),
            (long_tailed(500, 100, 100), 0.4271, 0.2285),
            (long_tailed(500, 100, 10), 0.3975, 0.1976),
            (long_tailed(500, 100, 200), 0.4333, 0.2340),
        ],
    )
    def test_arithmetic_on_other_sets(self, counts: list[int], first: float, last: float) -> None:
        strength = MFW(counts, std="arithmetic").strength
        assert strength[0].item() == pytest.approx(first, abs=5.1e-5)
        assert strength[-1].item() == pytest.approx(last, abs=5.1e-5)

    @pytest.mark.parametrize(
        ("index", "geometric", "arithmetic"),
        [
            (0, 0.5, 0.427),
            (25, 0.5, 0.302),
            (49, 0.282, 0.251),
            (50, 0.234, 0.250),
            (75, 0.006, 0.233),
            (99, 0.002, 0.229),
        ],
    )
    def test_both_readings_on_a_hundred_classes(self, index: int, geometric: float, arithmetic: float) -> None:
        counts = long_tailed(500, 100, 100)
        assert MFW(counts).strength[index].item() == pytest.approx(geometric, abs=5.1e-4)
        assert MFW(counts, std="arithmetic").strength[index].item() == pytest.approx(arithmetic, abs=5.1e-4)

    @pytest.mark.parametrize("rho", [10, 50, 100, 200])
    @pytest.mark.parametrize(("largest", "classes"), [(5000, 10), (500, 100)])
    def test_a_step_is_exactly_half_and_zero(self, largest: int, classes: int, rho: int) -> None:
        half = classes // 2
        counts = [largest] * half + [largest // rho] * half
        mfw = MFW(counts)
        assert (mfw.kind, mfw.alpha, mfw.beta) == ("step", 5.0, 0.01)
        assert mfw.strength.tolist() == [0.5] * half + [0.0] * half
        # The other reading of gamma makes no difference that matters.
        np.testing.assert_allclose(MFW(counts, std="arithmetic").strength, mfw.strength, atol=1e-5)
        np.testing.assert_allclose(MFW(counts, std="log").strength, mfw.strength, atol=1e-5)

    @pytest.mark.parametrize("beta", [0.25, 2.0])
    def test_the_z_score_of_the_logarithms(self, beta: float) -> None:
        logs = np.log(np.array(C10_LONG_TAILED, np.float64))
        wanted = 0.5 / (1 + np.exp(-(logs - logs.mean()) / (beta * logs.std())))
        strength = MFW(C10_LONG_TAILED, std="log", beta=beta).strength
        np.testing.assert_allclose(strength, wanted, rtol=1e-6)
        # An exponential tail falls evenly, whatever its ratio; a sharp beta comes to the geometric reading.
        np.testing.assert_allclose(MFW(long_tailed(5000, 10, 10), std="log", beta=beta).strength, wanted, atol=2e-3)
        np.testing.assert_allclose(
            MFW(C10_LONG_TAILED, std="log", beta=0.01).strength, [0.5] * 5 + [0.0] * 5, atol=1e-5
        )

    def test_against_the_formula_in_float64(self) -> None:
        counts = np.array([900.0, 400.0, 250.0, 30.0])
        mean, deviation = np.exp(np.log(counts).mean()), np.exp(np.log(counts).std())
        wanted = 0.5 / (1 + np.exp(-(counts - mean) / (40.0 * deviation)))
        np.testing.assert_allclose(MFW(counts, beta=40.0).strength, wanted, rtol=1e-6)

    @pytest.mark.parametrize("std", ["geometric", "arithmetic", "log"])
    def test_monotone_and_within_zero_and_half(self, std: Any) -> None:
        strength = MFW(long_tailed(10**6, 50, 10**5), std=std).strength
        assert bool((strength.diff() <= 0).all())
        assert 0.0 <= strength[-1] < strength[0] <= 0.5

    def test_kind_can_be_given(self) -> None:
        mfw = MFW(C10_STEP, kind="long_tailed")
        assert (mfw.kind, mfw.alpha, mfw.beta) == ("long_tailed", 1.0, 2.0)
        assert MFW(C10_LONG_TAILED, kind="step", alpha=0.3).alpha == 0.3

    def test_strength_can_be_given(self) -> None:
        assert MFW([10, 10, 5], strength=[0.5, 0.25, 0.0]).strength.tolist() == [0.5, 0.25, 0.0]
        assert MFW([10, 5], strength=torch.tensor([0.5, 0.0])).strength.tolist() == [0.5, 0.0]

    def test_a_model_that_is_built_without_memory_and_filled_later(self) -> None:
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(2, 4), MFW([500, 400, 20, 10]))
        filled, wanted = model.to_empty(device="cpu")[1], MFW([500, 400, 20, 10])
        assert torch.equal(filled.strength, wanted.strength)
        assert torch.equal(filled.quantiles, wanted.quantiles)

    def test_nothing_is_kept_in_the_state_dict(self) -> None:
        model = nn.ModuleDict({"layer": nn.Linear(2, 2), "mfw": MFW(C10_STEP)})
        assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
        assert next(model.parameters()) is model["layer"].weight
        assert "classes=10, kind=step, alpha=5.0" in repr(model)


class TestDraws:
    def test_partners_permute_the_batch(self) -> None:
        mfw = MFW(C10_STEP)
        labels = torch.arange(64) % 10
        seen = set()
        for seed in range(5):
            mix = mfw.sample(labels, seeded(seed))
            assert mix is not None
            assert torch.equal(mix.partner.sort().values, torch.arange(64))
            assert torch.equal(mix.partner[mix.inverse], torch.arange(64))
            seen.add(tuple(mix.partner.tolist()))
        assert len(seen) == 5

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
    def test_shares_are_beta_draws_times_the_own_class_strength(self, alpha: float) -> None:
        from scipy import stats  # only here, so that the tests on a GPU need no more than torch and the library

        mfw = MFW([50, 40, 30], alpha=alpha, strength=[0.5, 0.2, 0.0])
        labels = torch.arange(30_000) % 3
        mix = mfw.sample(labels, seeded(0))
        assert mix is not None
        for label, strength in ((0, 0.5), (1, 0.2)):
            draws = mix.weight[labels == label].numpy() / np.float32(strength)
            assert stats.kstest(draws, stats.beta(alpha, alpha).cdf).statistic < 0.02
            assert draws.mean() == pytest.approx(0.5, abs=0.02)
        assert mix.weight.max() <= 0.5
        assert mix.weight[labels == 2].abs().max() == 0

    def test_one_draw_per_batch(self) -> None:
        mfw = MFW([50, 40, 30], alpha=1.0, strength=[0.5, 0.2, 0.0], draw="batch")
        labels = torch.tensor([0, 1, 0, 2, 1, 0])
        draws = set()
        for seed in range(8):
            mix = mfw.sample(labels, seeded(seed))
            assert mix is not None
            ratio = mix.weight[labels < 2] / mfw.strength[labels[labels < 2]]
            torch.testing.assert_close(ratio, ratio[:1].expand(5))
            assert mix.weight[3] == 0
            draws.add(round(ratio[0].item(), 6))
        assert len(draws) == 8

    def test_draws_per_sample_differ(self) -> None:
        mix = MFW(C10_STEP).sample(torch.zeros(32, dtype=torch.int64), seeded(0))
        assert mix is not None
        assert len(set(mix.weight.tolist())) > 28

    def test_share_of_given_uniforms(self) -> None:
        mfw = MFW([50, 5], alpha=2.0, strength=[0.4, 0.1])
        u = torch.tensor([0.0, 0.25, 0.9999])
        table = beta_quantiles(2.0)
        wanted = torch.tensor([0.4, 0.1, 0.4]) * table[[0, 1024, 4095]]
        torch.testing.assert_close(mfw.share(torch.tensor([0, 1, 0]), u), wanted)

    def test_generator_makes_it_repeatable_and_leaves_the_global_one_alone(self) -> None:
        mfw, z, labels = MFW(C10_STEP), torch.randn(16, 4), torch.arange(16) % 10
        state = torch.get_rng_state()
        first, again, other = mfw(z, labels, seeded(3)), mfw(z, labels, seeded(3)), mfw(z, labels, seeded(4))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert torch.equal(torch.get_rng_state(), state)

    def test_without_generator_the_global_one_is_used(self) -> None:
        mfw, z, labels = MFW(C10_STEP), torch.randn(16, 4), torch.arange(16) % 10
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            first, second = mfw(z, labels), mfw(z, labels)
            torch.manual_seed(7)
            assert torch.equal(mfw(z, labels), first)
        assert not torch.equal(first, second)

    @pytest.mark.parametrize(
        "dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32]
    )
    def test_labels_of_every_integer_type(self, dtype: torch.dtype) -> None:
        mfw, labels = MFW(C10_STEP), torch.arange(10)  # as many labels as classes: a mask would fit, too
        mix, wanted = mfw.sample(labels.to(dtype), seeded(0)), mfw.sample(labels, seeded(0))
        assert mix is not None
        assert wanted is not None
        assert torch.equal(mix.weight, wanted.weight)

    @pytest.mark.parametrize("autocast", [False, True])
    def test_soft_labels_mix_the_strengths(self, autocast: bool) -> None:
        mfw = MFW([50, 40, 30], alpha=1.0, strength=[0.47, 0.13, 0.0])
        soft = torch.tensor([[1.0, 0, 0], [0, 0.3, 0.7], [0.6, 0.4, 0], [0, 0, 1]])
        with (
            torch.autocast("cpu", torch.bfloat16, enabled=autocast),
            pytest.warns(UserWarning, match="no one-hot rows received .*it takes the mean strength"),
        ):
            mix = mfw.sample(soft, seeded(0))
        assert mix is not None
        generator = seeded(0)
        torch.randperm(4, generator=generator)
        draws = beta_quantiles(1.0)[(torch.rand(4, generator=generator) * 4096).long()]
        wanted = (soft.double() @ torch.tensor([0.47, 0.13, 0.0], dtype=torch.float64)) * draws
        assert mix.weight.dtype == torch.float32
        torch.testing.assert_close(mix.weight.double(), wanted, rtol=1e-6, atol=1e-9)

    def test_one_hot_labels_equal_indices(self) -> None:
        mfw, labels, z = MFW(C10_STEP), torch.arange(10), torch.randn(10, 3)
        soft = nn.functional.one_hot(labels, 10).double()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(mfw(z, soft, seeded(1)), mfw(z, labels, seeded(1)))

    @pytest.mark.parametrize(
        ("rows", "told"),
        [
            ([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]], "from 0 to 1 and sums from 1 to 2"),  # several classes at once
            ([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "from 0 to 1 and sums from 0 to 1"),
            ([[2.0, -1.0, 0.0], [0.0, 1.0, 0.0]], "from -1 to 2 and sums from 1 to 1"),  # scores
            ([[torch.nan, 1.0, 0.0], [0.0, 1.0, 0.0]], "nan"),
        ],
    )
    def test_rows_that_are_no_probabilities_are_refused(self, rows: list[list[float]], told: str) -> None:
        """Of three major classes at once the mixing share would be up to 1.5."""
        with pytest.raises(DataError, match=told):
            MFW([50, 40, 5]).sample(torch.tensor(rows))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_rounded_probabilities_pass(self, dtype: torch.dtype) -> None:
        smoothed = nn.functional.one_hot(torch.arange(8), 1000) * 0.9 + 0.1 / 1000
        with pytest.warns(UserWarning, match="no one-hot rows received"):
            assert MFW([50, *[5] * 999]).sample(smoothed.to(dtype)) is not None

    def test_soft_labels_are_warned_about_once(self) -> None:
        mfw, soft = MFW([50, 5]), torch.tensor([[0.9, 0.1], [0.0, 1.0]])
        mfw.sample(soft.round())
        with pytest.warns(UserWarning, match="no one-hot rows received") as found:
            mfw.sample(soft)
        assert found[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mfw.sample(soft)


def naive(z: Tensor, mix: Mix) -> Tensor:
    """Algorithm 1, line by line."""
    rows = []
    for n in range(len(z)):
        share = mix.weight[n].double()
        rows.append((1 - share) * z[n] + share * z[int(mix.partner[n])])
    return torch.stack(rows)


class TestFeature:
    @pytest.mark.parametrize("shape", [(12,), (12, 5), (12, 4, 3, 3), (12, 6, 5)])
    @pytest.mark.parametrize("draw", ["sample", "batch"])
    def test_against_a_loop_in_float64(self, shape: tuple[int, ...], draw: Any) -> None:
        mfw = MFW(C10_STEP, draw=draw)
        labels = torch.arange(12) % 10
        z = torch.randn(shape, dtype=torch.float64)
        mix = mfw.sample(labels, seeded(5))
        assert mix is not None
        torch.testing.assert_close(mfw(z, labels, seeded(5)), naive(z, mix), atol=1e-12, rtol=0)

    def test_gradient_equals_that_of_plain_indexing(self) -> None:
        mfw = MFW(C10_LONG_TAILED)
        labels = torch.arange(12) % 10
        z = torch.randn(12, 4, dtype=torch.float64, requires_grad=True)
        twin = z.detach().clone().requires_grad_()
        head = torch.randn(4, 10, dtype=torch.float64)
        mix = mfw.sample(labels, seeded(2))
        assert mix is not None
        share = mix.weight.double()[:, None]
        plain = (1 - share) * twin + share * twin[mix.partner]
        nn.functional.cross_entropy(mfw(z, labels, seeded(2)) @ head, labels).backward()
        nn.functional.cross_entropy(plain @ head, labels).backward()
        assert z.grad is not None
        torch.testing.assert_close(z.grad, twin.grad, atol=1e-14, rtol=0)

    def test_gradient_reaches_the_partner_if_and_only_if_the_share_is_positive(self) -> None:
        mfw = MFW([50, 40, 5, 4], alpha=1.0, strength=[0.5, 0.3, 0.0, 0.0])
        labels = torch.tensor([0, 1, 2, 3, 0, 2])
        z = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
        mix = mfw.sample(labels, seeded(11))
        assert mix is not None
        assert bool((mix.partner != torch.arange(6)).sum() >= 4)
        mixed = mfw(z, labels, seeded(11))
        for n in range(6):
            (gradient,) = torch.autograd.grad(mixed[n].sum(), z, retain_graph=True)
            partner, share = int(mix.partner[n]), mix.weight[n].double()
            if partner == n:
                continue
            assert (gradient[partner].abs() > 0).all() == bool(share > 0)
            torch.testing.assert_close(gradient[partner], share.expand(3))
            torch.testing.assert_close(gradient[n], (1 - share).expand(3))

    def test_gradcheck(self) -> None:
        mfw, labels = MFW(C10_STEP), torch.arange(8)
        z = torch.randn(8, 2, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda z: mfw(z, labels, seeded(1)), (z,))
        assert torch.autograd.gradgradcheck(lambda z: mfw(z, labels, seeded(1)), (z,))

    def test_evaluation_returns_the_feature_itself(self) -> None:
        mfw, z = MFW(C10_STEP).eval(), torch.randn(4, 3)
        state = torch.get_rng_state()
        assert mfw(z, torch.tensor([0, 1, 2, 3])) is z
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_permutation_that_moves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        swapping(monkeypatch, list(range(8)))
        z = torch.randn(8, 100)
        torch.testing.assert_close(MFW(C10_STEP)(z, torch.arange(8)), z, atol=1e-6, rtol=1e-6)

    def test_minor_samples_pass_to_the_bit(self) -> None:
        z = torch.randn(20, 7)
        labels = torch.arange(20) % 10
        mixed = MFW(C10_STEP)(z, labels, seeded(0))
        assert torch.equal(mixed[labels >= 5], z[labels >= 5])
        assert not torch.equal(mixed[labels < 5], z[labels < 5])


class TestGradientReduction:
    """Ye, Zhan, Chao 2021, Sec. 3.3: a major and a misclassified minor sample, h the identity."""

    DRAWS, REPEATS, WIDTH = 200, 100, 3

    def two_samples(self, seed: int) -> tuple[Tensor, Tensor]:
        """Classifiers w [100, 3] and features z [2, 100, 3]; z[1], of class 0, is scored as class 1."""
        generator = seeded(seed)
        w = torch.randn(self.REPEATS, self.WIDTH, dtype=torch.float64, generator=generator)
        z = 3 * torch.randn(2, self.REPEATS, self.WIDTH, dtype=torch.float64, generator=generator)
        wrong_side = (z[1] * w).sum(-1).sign()
        z[1] *= wrong_side[:, None]
        return w, z.requires_grad_()

    def gradient(self, z: Tensor, mixed: Tensor, w: Tensor) -> Tensor:
        """Of the summed logistic losses of sample 0 (class 1) and sample 1 (class 0) at z[1]."""
        scores = (mixed * w).sum(-1)
        loss = nn.functional.softplus(-scores[0]) + nn.functional.softplus(scores[1])
        (gradient,) = torch.autograd.grad(loss.sum(), z, retain_graph=True)
        return gradient[1]

    def test_the_gradient_of_the_minor_sample_never_grows(self) -> None:
        mfw = MFW([50, 5], alpha=1.0, strength=[0.5, 0.0])
        labels = torch.tensor([0, 1])  # the index into the counts: the major class first
        swapped, smaller = 0, 0
        for seed in range(self.DRAWS):
            w, z = self.two_samples(seed)
            with_mfw = self.gradient(z, mfw(z, labels, seeded(seed)), w).norm(dim=-1)
            without = self.gradient(z, z, w).norm(dim=-1)
            assert bool((with_mfw <= without * (1 + 1e-12)).all())
            mix = mfw.sample(labels, seeded(seed))
            assert mix is not None
            swapped += int(mix.partner[0] == 1)
            smaller += int((with_mfw < without * (1 - 1e-9)).sum())
        assert 60 < swapped < 140
        assert smaller > 0.9 * swapped * self.REPEATS

    def test_the_gradient_is_the_one_of_the_paper(self, monkeypatch: pytest.MonkeyPatch) -> None:
        swapping(monkeypatch, [1, 0])
        mfw = MFW([50, 5], alpha=1.0, strength=[0.5, 0.0])
        w, z = self.two_samples(1)
        generator = seeded(9)
        mix = mfw.sample(torch.tensor([0, 1]), seeded(9))
        assert mix is not None
        share = mix.weight[0].double()
        assert share > 0.01
        mixed = (1 - share) * z[0] + share * z[1]
        factor = torch.sigmoid((w * z[1]).sum(-1)) + share * (torch.sigmoid((w * mixed).sum(-1)) - 1)
        found = self.gradient(z, mfw(z, torch.tensor([0, 1]), generator), w)
        torch.testing.assert_close(found, factor[:, None] * w, atol=1e-12, rtol=1e-9)


def warned(action: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in caught]


class TestWarnings:
    def test_a_batch_of_one_passes_and_warns_once(self) -> None:
        mfw, z = MFW(C10_STEP), torch.randn(1, 3)
        outputs: list[Tensor] = []
        messages = [warned(lambda: outputs.append(mfw(z, torch.tensor([0])))) for _ in range(3)]
        assert [len(m) for m in messages] == [1, 0, 0]
        assert "batch of one sample has no partner" in messages[0][0]
        assert warned(lambda: MFW(C10_STEP)(torch.randn(0, 3), torch.tensor([], dtype=torch.long))) == []
        assert all(output is z for output in outputs)

    @pytest.mark.parametrize("std", ["geometric", "arithmetic", "log"])
    def test_equal_counts_warn_and_do_nothing(self, std: Any) -> None:
        with pytest.warns(UserWarning, match="every class has strength 0"):
            mfw = MFW([100, 100, 100], std=std)
        assert mfw.strength.tolist() == [0.0, 0.0, 0.0]
        z = torch.randn(6, 2)
        state = torch.get_rng_state()
        assert mfw(z, torch.tensor([0, 1, 2, 0, 1, 2])) is z
        assert torch.equal(torch.get_rng_state(), state)

    def test_strength_zero_warns(self) -> None:
        with pytest.warns(UserWarning, match="MFW changes nothing"):
            MFW([50, 5], strength=[0.0, 0.0])

    def test_an_empty_batch_passes(self) -> None:
        mfw, z = MFW(C10_STEP), torch.randn(0, 3)
        outputs: list[Tensor] = []
        warned(lambda: outputs.append(mfw(z, torch.zeros(0, dtype=torch.int64))))
        assert outputs[0] is z


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"kind": "tail"}, "kind = 'tail' received; accepted: 'auto', 'long_tailed', 'step'"),
            ({"std": "population"}, "std = 'population' received; accepted: 'geometric', 'arithmetic', 'log'"),
            ({"draw": "epoch"}, "draw = 'epoch' received; accepted: 'sample', 'batch'"),
            ({"alpha": 0.0}, r"alpha = 0\.0 received"),
            ({"alpha": -1.0}, r"alpha = -1\.0 received"),
            ({"alpha": math.nan}, "alpha = nan received"),
            ({"beta": 0.0}, r"beta = 0\.0 received"),
            ({"beta": -2.0}, r"beta = -2\.0 received"),
            ({"beta": math.nan}, "beta = nan received"),
            (
                {"strength": [0.5, 0.6]},
                r"strength \[0\.5, 0\.6\] received; give a number in",
            ),
            ({"strength": [0.5, -0.1]}, r"give a number in \[0, 0\.5\]"),
            ({"strength": [0.5, math.nan]}, r"give a number in \[0, 0\.5\]"),
            ({"strength": [0.5]}, "for each class"),
        ],
    )
    def test_settings(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            MFW([50, 5], **arguments)

    def test_counts_with_zeros(self) -> None:
        with pytest.raises(DataError, match=r"classes \[1\] have no images"):
            MFW([50, 0, 5])

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (torch.tensor([0, 2]), "labels from 0 to 2 received, but there are 2 classes"),
            (torch.tensor([-1, 1]), "labels from -1 to 1 received"),
            (torch.tensor([0.0, 1.0]), r"labels of shape \(2,\) and type torch.float32"),
            (torch.tensor([True, False]), "type torch.bool"),
            (torch.tensor([[0], [1]]), r"labels of shape \(2, 1\)"),
            (torch.tensor(1), r"labels of shape \(\)"),
            (torch.rand(2, 3), r"label probabilities of shape \(2, 3\) for 2 classes"),
            ([0, 1], "labels of type list received"),
            (None, "labels of type NoneType received"),
        ],
    )
    def test_labels(self, labels: Any, message: str) -> None:
        with pytest.raises(DataError, match=message):
            MFW([50, 5])(torch.randn(2, 3), labels)

    def test_labels_are_checked_in_every_batch(self) -> None:
        mfw, z = MFW([50, 5]), torch.randn(2, 3)
        mfw(z, torch.tensor([0, 1]))
        with pytest.raises(DataError, match="labels from 0 to 5"):
            mfw(z, torch.tensor([0, 5]))

    def test_wrong_number_of_labels(self) -> None:
        with pytest.raises(DataError, match=r"3 labels for a feature of shape \(2, 4\)"):
            MFW([50, 5])(torch.randn(2, 4), torch.tensor([0, 1, 0]))


@pytest.mark.gpu
class TestOnTheGpu:
    def test_labels_are_checked_once_and_nothing_waits_afterwards(self) -> None:
        mfw = MFW(C10_STEP).cuda()
        z = torch.randn(16, 4, device="cuda", requires_grad=True)
        with pytest.raises(DataError, match="labels from"):
            mfw(z, torch.full((16,), 10, device="cuda"))
        labels = torch.arange(16, device="cuda") % 10
        mfw = MFW(C10_STEP).cuda()
        mfw(z, labels)
        torch.cuda.synchronize()
        warnings.filterwarnings("ignore", message="Synchronization debug mode")  # that it is a prototype
        torch.cuda.set_sync_debug_mode("error")
        try:
            mfw(z, labels).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_the_tables_follow_the_labels(self) -> None:
        z = torch.randn(16, 4, device="cuda")
        labels = torch.arange(16, device="cuda") % 10
        mfw = MFW(C10_STEP)
        mixed = mfw(z, labels, torch.Generator("cuda").manual_seed(0))
        mix = mfw.sample(labels, torch.Generator("cuda").manual_seed(0))
        assert mix is not None
        assert torch.equal(mix.inverse, inverse_permutation(mix.partner))
        torch.testing.assert_close(mixed.double(), naive(z.double(), mix), atol=1e-6, rtol=1e-6)
