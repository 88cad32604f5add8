"""Methods that mix images or features together with their labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from procrustean.balance import Batch, Classify, Clock, Mix, Problem, beta_quantiles, blend, effective_number
from procrustean.balance.mixing import from_uniform, inverse_permutation
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.methods.mamix import MarginMixing
from procrustean.methods.manifold_mixup import LayerMixing
from procrustean.methods.mixup import ImageMixing
from procrustean.methods.remix import Remixing
from procrustean.nets import build_net

COUNTS = (600, 200, 199, 20, 2)
LAYERS = ("input", "group1", "group2", "group3")
PROBLEM = Problem(COUNTS, "long_tailed", "", LAYERS)
SIZE = 40
MIXERS: dict[str, Callable[[], Any]] = {
    "mixup": lambda: ImageMixing(1.0),
    "remix": lambda: Remixing(COUNTS, 1.0, 3.0, 0.5),
    "mamix": lambda: MarginMixing(COUNTS, 1.0, 0.25),
    "manifold mixup": lambda: LayerMixing(2.0, ("input", "group2", "group3")),
}
every_mixer = pytest.mark.parametrize("make", MIXERS.values(), ids=list(MIXERS))
METHODS = ("mixup", "manifold_mixup", "remix", "mamix")


def made_batch(u: float | None = None, seed: int = 0, place: float = 0.0) -> Batch:
    """A batch whose first uniform is u; the others, which have to play no part, are random."""
    generator = torch.Generator().manual_seed(seed)
    partner = torch.randperm(SIZE, generator=generator)
    first, second = torch.rand(SIZE, generator=generator), torch.rand(SIZE, generator=generator)
    if u is not None:
        first[0], second[0] = u, place
    return Batch(
        x=torch.randn(SIZE, 1, 8, 8, generator=generator),
        y=torch.randint(len(COUNTS), (SIZE,), generator=generator),
        partner=partner,
        inverse=inverse_permutation(partner),
        u={"mixup": first, "manifold_mixup": torch.stack([first, second], 1)},
    )


def share_of(u: float, alpha: float = 1.0) -> float:
    return float(from_uniform(beta_quantiles(alpha), torch.tensor([u])))


class TestEveryMixer:
    @every_mixer
    def test_one_share_for_the_batch(self, make: Callable[[], Any]) -> None:
        mixture = make()(made_batch(0.3))
        total = torch.stack([mix.weight for mix in mixture.mixes]).sum(0)
        assert total.shape == (SIZE,)
        assert bool((total == total[0]).all())
        assert total[0].item() == share_of(0.3, 2.0 if len(mixture.mixes) == 3 else 1.0)
        # The kernel that blends on a GPU reads one number per row, side by side.
        assert all(mix.weight.is_contiguous() for mix in mixture.mixes)

    @every_mixer
    def test_partners_are_those_of_the_plan(self, make: Callable[[], Any]) -> None:
        batch = made_batch()
        for mix in make()(batch).mixes:
            assert mix.partner is batch.partner
            assert mix.inverse is batch.inverse

    @every_mixer
    def test_label_shares_are_shares(self, make: Callable[[], Any]) -> None:
        for seed in range(20):
            labels = make()(made_batch(seed=seed)).label_weight
            assert labels.shape == (SIZE,)
            assert labels.dtype == torch.float32
            assert bool(((labels >= 0) & (labels <= 1)).all())

    @every_mixer
    def test_a_sample_that_is_its_own_partner_keeps_its_share(self, make: Callable[[], Any]) -> None:
        order = torch.arange(SIZE)
        mixture = make()(made_batch(0.3)._replace(partner=order, inverse=order))
        share = torch.stack([mix.weight for mix in mixture.mixes]).sum(0)
        torch.testing.assert_close(mixture.label_weight, share)

    @every_mixer
    def test_nothing_is_drawn_and_nothing_is_state(self, make: Callable[[], Any]) -> None:
        mixer, before = make(), torch.get_rng_state()
        mixer(made_batch())
        assert torch.equal(torch.get_rng_state(), before)
        assert list(mixer.state_dict()) == []
        assert all(buffer.device.type == "meta" for buffer in mixer.to("meta").buffers())


def objective_of(name: str, problem: Problem = PROBLEM, **options: Any) -> Classify:
    objective = make_method(name, problem, options).stages[0].objective
    assert isinstance(objective, Classify)
    return objective


def minimised(name: str, batch: Batch, epoch: int = 0, **options: Any) -> Tensor:
    net = build_net("small", channels=1, classes=len(COUNTS), seed=0)
    objective = objective_of(name, **options)
    objective.bind(net)
    value: Tensor = objective(net, batch, Clock(torch.tensor(epoch), torch.tensor(0.1), 10))
    return value


def naive(batch: Batch, share: float, labels: list[float], weights: list[float] | None, reduction: str) -> float:
    """Mix the images, then add up the two terms of every sample one by one."""
    net = build_net("small", channels=1, classes=len(COUNTS), seed=0)
    mixed = torch.stack([(1 - share) * batch.x[i] + share * batch.x[batch.partner[i]] for i in range(SIZE)])
    logits = net(mixed).detach().double().numpy()
    y, w = batch.y.tolist(), weights or [1.0] * len(COUNTS)
    own = other = own_weight = other_weight = 0.0
    for i in range(SIZE):
        theirs = y[int(batch.partner[i])]
        log_p = logits[i] - np.log(np.exp(logits[i]).sum())
        own -= (1 - labels[i]) * w[y[i]] * log_p[y[i]]
        other -= labels[i] * w[theirs] * log_p[theirs]
        own_weight, other_weight = own_weight + w[y[i]], other_weight + w[theirs]
    if reduction == "mean":
        return float((own + other) / SIZE)
    return float(own / own_weight + other / other_weight)


def remix_label(share: float, mine: int, theirs: int, kappa: float = 3.0, tau: float = 0.5) -> float:
    """The partner's share of the label, in the words of the definition."""
    lam = 1 - share
    if mine / theirs >= kappa and lam < tau:
        return 1.0
    if mine / theirs <= 1 / kappa and 1 - lam < tau:
        return 0.0
    return share


def mamix_label(share: float, mine: int, theirs: int, power: float = 0.25) -> float:
    mine_margin, their_margin = mine**-power, theirs**-power
    knee = mine_margin / (mine_margin + their_margin)
    return float(1 - np.interp(share, [0, knee, 1], [1, 0.5, 0]))


RULES: dict[str, Callable[[float, int, int], float]] = {
    "mixup": lambda share, mine, theirs: share,
    "remix": remix_label,
    "mamix": mamix_label,
}


class TestObjective:
    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.parametrize("u", [0.1, 0.45, 0.8])
    @pytest.mark.parametrize(
        ("epoch", "reduction"), [(0, "weighted_mean"), (9, "weighted_mean"), (9, "mean"), (0, "mean")]
    )
    def test_against_a_loop(self, name: str, u: float, epoch: int, reduction: str) -> None:
        batch, share = made_batch(u), share_of(u)
        labels = [
            RULES[name](share, COUNTS[int(batch.y[i])], COUNTS[int(batch.y[batch.partner[i]])]) for i in range(SIZE)
        ]
        weights = effective_number(COUNTS).double().tolist() if epoch == 9 else None
        wanted = naive(batch, share, labels, weights, reduction)
        found = minimised(name, batch, epoch, drw=True, reduction=reduction)
        assert found.item() == pytest.approx(wanted, rel=2e-5)

    @pytest.mark.parametrize("name", METHODS)
    def test_the_two_reductions_differ_only_once_weights_are_on(self, name: str) -> None:
        batch = made_batch(0.4)
        for epoch, same in ((0, True), (9, False)):
            both = [minimised(name, batch, epoch, drw=True, reduction=r).item() for r in ("weighted_mean", "mean")]
            assert (both[0] == pytest.approx(both[1], rel=1e-5)) is same

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("remix", {"kappa": math.inf}),
            ("remix", {"kappa": "inf"}),
            ("remix", {"tau": 0}),
            ("mamix", {"power": 0}),
            ("manifold_mixup", {"layers": "input", "alpha": 1}),
        ],
    )
    def test_limits_are_mixup(self, name: str, options: dict[str, Any]) -> None:
        for seed in range(5):
            batch = made_batch(seed=seed)
            torch.testing.assert_close(minimised(name, batch, **options), minimised("mixup", batch))

    @pytest.mark.parametrize("name", METHODS)
    def test_a_tiny_share_is_erm(self, name: str) -> None:
        batch = made_batch(0.0)
        found = minimised(name, batch, alpha=0.01)  # the smallest of its 4096 shares is 0
        torch.testing.assert_close(found, minimised("erm", batch))

    @pytest.mark.parametrize("name", METHODS)
    def test_gradients_reach_both_images_of_a_pair(self, name: str) -> None:
        batch = made_batch(0.4)
        x = batch.x.clone().requires_grad_()
        net = build_net("small", channels=1, classes=len(COUNTS), seed=0).eval()
        objective = objective_of(name)
        objective.bind(net)
        scores: list[Tensor] = []
        net.register_forward_hook(lambda module, args, output: scores.append(output))
        objective(net, batch._replace(x=x), Clock(torch.tensor(0), torch.tensor(0.1), 10))
        (gradient,) = torch.autograd.grad(scores[0][0].sum(), x)
        touched = set(gradient.flatten(1).abs().sum(1).nonzero().flatten().tolist())
        assert touched == {0, int(batch.partner[0])}


class TestRemix:
    @pytest.mark.parametrize("share", [0.0, 0.2, 0.49, 0.51, 0.8, 1.0])
    @pytest.mark.parametrize("kappa", [1.5, 3.0, 10.0])
    def test_rule_for_every_pair_of_classes(self, share: float, kappa: float) -> None:
        own = torch.arange(5).repeat_interleave(5)
        other = torch.arange(5).repeat(5)
        found = Remixing(COUNTS, 1.0, kappa, 0.5).label_share(torch.full((25,), share), own, other)
        wanted = [remix_label(share, COUNTS[i], COUNTS[j], kappa) for i, j in zip(own, other, strict=True)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)

    def test_a_ratio_of_exactly_kappa_counts(self) -> None:
        counts = (60_000_003, 20_000_001, 20_000_002)  # beyond what float32 can tell apart
        mixer = Remixing(counts, 1.0, 3.0, 0.5)
        big = torch.tensor([0, 0])
        small = torch.tensor([1, 2])
        assert mixer.label_share(torch.full((2,), 0.75), big, small).tolist() == [1.0, 0.75]
        assert mixer.label_share(torch.full((2,), 0.25), small, big).tolist() == [0.0, 0.25]

    def test_kappa_with_decimals_is_the_number_that_was_meant(self) -> None:
        assert Remixing((11, 10), 1.0, 1.1, 0.5).ratio == (11, 10)

    def test_the_share_of_the_image_stays(self) -> None:
        batch = made_batch(0.8)
        (mix,) = Remixing(COUNTS, 1.0, 3.0, 0.5)(batch).mixes
        assert bool((mix.weight == share_of(0.8)).all())

    @pytest.mark.parametrize(
        ("options", "message"),
        [({"kappa": 0.5}, "kappa = 0.5"), ({"kappa": "nan"}, "kappa = nan"), ({"tau": 1.5}, "tau = 1.5")],
    )
    def test_out_of_range(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            make_method("remix", PROBLEM, options)


class TestMAMix:
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
    @pytest.mark.parametrize("power", [0.1, 0.25, 1.0])
    def test_rule_for_every_pair_of_classes(self, share: float, power: float) -> None:
        own = torch.arange(5).repeat_interleave(5)
        other = torch.arange(5).repeat(5)
        found = MarginMixing(COUNTS, 1.0, power).label_share(torch.full((25,), share), own, other)
        wanted = [mamix_label(share, COUNTS[i], COUNTS[j], power) for i, j in zip(own, other, strict=True)]
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-7)

    def test_one_half_at_the_knee(self) -> None:
        mixer = MarginMixing((16, 1), 1.0, 0.25)  # margins 1/2 and 1: the knee of the large class is 1/3
        own, other = torch.tensor([0, 1]), torch.tensor([1, 0])
        knee = torch.sigmoid(0.25 * (mixer.logs[other] - mixer.logs[own]))
        torch.testing.assert_close(knee, torch.tensor([1 / 3, 2 / 3]))
        assert mixer.label_share(knee, own, other).tolist() == [0.5, 0.5]

    def test_the_small_class_keeps_more_of_its_label(self) -> None:
        mixer, half = MarginMixing((1000, 10), 1.0, 0.25), torch.tensor([0.5])
        assert mixer.label_share(half, torch.tensor([1]), torch.tensor([0])) < 0.5
        assert mixer.label_share(half, torch.tensor([0]), torch.tensor([1])) > 0.5

    def test_extreme_margins_stay_finite(self) -> None:
        mixer = MarginMixing((100_000, 1), 1.0, 20.0)
        for share in (0.0, 0.3, 1.0):
            found = mixer.label_share(torch.full((2,), share), torch.tensor([0, 1]), torch.tensor([1, 0]))
            assert bool(((found >= 0) & (found <= 1)).all())

    @pytest.mark.parametrize("power", [-0.1, "inf", "nan"])
    def test_out_of_range(self, power: Any) -> None:
        with pytest.raises(ConfigError, match="power = "):
            make_method("mamix", PROBLEM, {"power": power})


class TestManifoldMixup:
    @pytest.mark.parametrize(("place", "chosen"), [(0.0, 0), (0.32, 0), (0.34, 1), (0.66, 1), (0.67, 2), (0.999999, 2)])
    def test_one_layer_per_batch(self, place: float, chosen: int) -> None:
        mixture = LayerMixing(2.0, ("input", "group2", "group3"))(made_batch(0.3, place=place))
        active = [bool(mix.weight.any()) for mix in mixture.mixes]
        assert active == [index == chosen for index in range(3)]
        assert torch.equal(mixture.mixes[chosen].weight, mixture.label_weight)

    def test_layers_come_alike(self) -> None:
        mixer = LayerMixing(2.0, ("input", "group2", "group3"))
        chosen = [[bool(mix.weight.any()) for mix in mixer(made_batch(seed=seed)).mixes] for seed in range(600)]
        np.testing.assert_allclose(np.mean(chosen, axis=0), 1 / 3, atol=0.07)

    @pytest.mark.parametrize(("place", "layer"), [(0.1, "input"), (0.5, "group2"), (0.9, "group3")])
    def test_features_are_mixed_there(self, place: float, layer: str) -> None:
        batch = made_batch(0.3, place=place)
        share = torch.full((SIZE,), share_of(0.3, 2.0))
        net = build_net("small", channels=1, classes=len(COUNTS), seed=0)
        mix = Mix(batch.partner, batch.inverse, share)
        module = net.get_submodule(f"backbone.{layer}")
        module.register_forward_hook(lambda m, args, output: blend(output, mix))
        logits = net(batch.x)
        own = F.cross_entropy(logits, batch.y, reduction="none")
        other = F.cross_entropy(logits, batch.y[batch.partner], reduction="none")
        wanted = ((1 - share) * own + share * other).mean()
        torch.testing.assert_close(minimised("manifold_mixup", batch), wanted)

    @pytest.mark.parametrize(
        ("problem", "options", "wanted"),
        [
            (Problem(COUNTS, "step", "", ("input", "group1", "group2", "group3", "group4")), {}, "input group2 group3"),
            (PROBLEM, {}, "input group2 group3"),
            (Problem(COUNTS, "step", "", ("input", "group1", "group2")), {}, "input group2"),
            (Problem(COUNTS, "step", second_group="block2"), {}, "input block2"),
            (PROBLEM, {"layers": "group1, group3"}, "group1 group3"),
            (PROBLEM, {"layers": "backbone.group1.conv"}, "backbone.group1.conv"),
        ],
    )
    def test_where_it_mixes(self, problem: Problem, options: dict[str, Any], wanted: str) -> None:
        mixer = objective_of("manifold_mixup", problem, **options).mixer
        assert mixer is not None
        assert mixer.at == tuple(wanted.split())

    @pytest.mark.parametrize("layers", ["", "input,", "group1,group1"])
    def test_layers_that_make_no_list(self, layers: str) -> None:
        with pytest.raises(ConfigError, match="name different layers, separated by commas"):
            make_method("manifold_mixup", PROBLEM, {"layers": layers})


@pytest.mark.parametrize("name", METHODS)
def test_alpha_out_of_range(name: str) -> None:
    with pytest.raises(ConfigError, match="Beta"):
        make_method(name, PROBLEM, {"alpha": 0})
