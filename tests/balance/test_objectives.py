"""From a batch to the scalar that is minimised, against slow references in float64."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean.balance import Batch, Classify, Clock, CrossEntropy, Focal, Mix, Mixer, Mixture, Objective, blend
from procrustean.balance.mixing import inverse_permutation
from procrustean.balance.weights import DeferredWeights, FixedWeights
from procrustean.base import ConfigError, LayerError
from procrustean.nets import build_net

CLASSES = 5
CLOCK = Clock(torch.tensor(0), torch.tensor(0.1), 10)
WEIGHTS = torch.tensor([0.1, 0.3, 1.1, 1.2, 2.3])


def made_batch(size: int = 12, seed: int = 0, draws: Mapping[str, Tensor] | None = None) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    partner = torch.randperm(size, generator=generator)
    return Batch(
        x=3 * torch.randn(size, CLASSES, generator=generator),  # the scores themselves: the net is an identity
        y=torch.randint(CLASSES, (size,), generator=generator),
        partner=partner,
        inverse=inverse_permutation(partner),
        u=dict(draws or {}),
    )


def log_softmax(row: np.ndarray) -> np.ndarray:
    shifted = row - row.max()
    return shifted - np.log(np.exp(shifted).sum())


def naive_loss(batch: Batch, weights: Tensor | None, reduction: str, shares: Tensor | None = None) -> float:
    """One sample at a time; with shares the partner's label has its share of the loss."""
    x, y = batch.x.double().numpy(), batch.y.tolist()
    w = np.ones(CLASSES) if weights is None else weights.double().numpy()
    lam = np.zeros(len(y)) if shares is None else shares.double().numpy()
    own_sum = other_sum = own_weight = other_weight = 0.0
    for i in range(len(y)):
        other = y[int(batch.partner[i])]
        own_sum += (1 - lam[i]) * w[y[i]] * -log_softmax(x[i])[y[i]]
        other_sum += lam[i] * w[other] * -log_softmax(x[i])[other]
        own_weight += w[y[i]]
        other_weight += w[other]
    if reduction == "mean":
        return float((own_sum + other_sum) / len(y))
    return float(own_sum / own_weight + other_sum / other_weight)


class SharesLabels(Mixer):
    """Mixes the labels and leaves the features alone."""

    def __init__(self, shares: Tensor) -> None:
        super().__init__()
        self.shares = shares

    def forward(self, batch: Batch) -> Mixture:
        return Mixture((), self.shares)


class MixesAt(Mixer):
    """Mixes the features at some layers."""

    def __init__(self, at: tuple[str, ...], shares: Tensor) -> None:
        super().__init__()
        self.at, self.shares = at, shares

    def forward(self, batch: Batch) -> Mixture:
        return Mixture((Mix(batch.partner, batch.inverse, self.shares),) * len(self.at), None)


class TestReduction:
    def test_without_weights_it_is_the_mean(self) -> None:
        batch = made_batch()
        loss = Classify()(nn.Identity(), batch, CLOCK)
        assert loss.shape == ()
        assert loss.item() == pytest.approx(naive_loss(batch, None, "mean"), rel=1e-6)
        torch.testing.assert_close(loss, F.cross_entropy(batch.x, batch.y))

    def test_weighted_mean_is_that_of_pytorch(self) -> None:
        batch = made_batch()
        loss = Classify(weight=FixedWeights(WEIGHTS))(nn.Identity(), batch, CLOCK)
        torch.testing.assert_close(loss, F.cross_entropy(batch.x, batch.y, weight=WEIGHTS))
        assert loss.item() == pytest.approx(naive_loss(batch, WEIGHTS, "weighted_mean"), rel=1e-6)

    def test_mean_divides_by_the_batch_size(self) -> None:
        batch = made_batch()
        loss = Classify(weight=FixedWeights(WEIGHTS), reduction="mean")(nn.Identity(), batch, CLOCK)
        assert loss.item() == pytest.approx(naive_loss(batch, WEIGHTS, "mean"), rel=1e-6)
        assert loss.item() != pytest.approx(naive_loss(batch, WEIGHTS, "weighted_mean"), rel=1e-2)

    def test_unknown_reduction(self) -> None:
        with pytest.raises(ConfigError, match="reduction = 'sum' received; accepted: 'weighted_mean', 'mean'"):
            Classify(reduction="sum")  # type: ignore[arg-type]

    def test_deferred_weights_follow_the_clock(self) -> None:
        batch, objective = made_batch(), Classify(weight=DeferredWeights(WEIGHTS, 0.5))
        found = [objective(nn.Identity(), batch, CLOCK._replace(epoch=torch.tensor(e))).item() for e in (0, 4, 5)]
        plain, weighted = naive_loss(batch, None, "mean"), naive_loss(batch, WEIGHTS, "weighted_mean")
        assert found == pytest.approx([plain, plain, weighted], rel=1e-6)


class TestLabelMixing:
    @pytest.mark.parametrize("weights", [None, WEIGHTS])
    @pytest.mark.parametrize("reduction", ["weighted_mean", "mean"])
    def test_against_a_loop(self, weights: Tensor | None, reduction: Any) -> None:
        batch = made_batch(size=17, seed=3)
        shares = torch.rand(17, generator=torch.Generator().manual_seed(1))
        objective = Classify(
            weight=None if weights is None else FixedWeights(weights),
            mixer=SharesLabels(shares),
            reduction=reduction,
        )
        wanted = naive_loss(batch, weights, "mean" if weights is None else reduction, shares)
        assert objective(nn.Identity(), batch, CLOCK).item() == pytest.approx(wanted, rel=1e-6)

    def test_shares_of_zero_and_one(self) -> None:
        batch = made_batch()
        none = Classify(mixer=SharesLabels(torch.zeros(12)))(nn.Identity(), batch, CLOCK)
        all_of_it = Classify(mixer=SharesLabels(torch.ones(12)))(nn.Identity(), batch, CLOCK)
        torch.testing.assert_close(none, F.cross_entropy(batch.x, batch.y))
        torch.testing.assert_close(all_of_it, F.cross_entropy(batch.x, batch.y[batch.partner]))

    def test_without_label_shares_the_labels_stay(self) -> None:
        batch = made_batch()
        objective = Classify(mixer=MixesAt((), torch.zeros(12)))
        torch.testing.assert_close(objective(nn.Identity(), batch, CLOCK), F.cross_entropy(batch.x, batch.y))


class NoisyLoss(CrossEntropy):
    """A loss that needs random numbers."""

    draws: Mapping[str, tuple[int, ...]] = {"noise": (CLASSES,)}

    def forward(self, logits: Tensor, labels: Tensor, noise: Tensor | None = None) -> Tensor:
        assert noise is not None
        return super().forward(logits + noise, labels)


class TestDraws:
    def test_nothing_is_asked_for_by_default(self) -> None:
        assert Classify().draws == {}
        assert Objective().draws == {}
        assert Objective().capturable

    def test_a_loss_is_handed_the_numbers_it_asked_for(self) -> None:
        noise = torch.rand(12, CLASSES)
        batch = made_batch(draws={"noise": noise})
        objective = Classify(loss=NoisyLoss(reduction="none"))
        assert dict(objective.draws) == {"noise": (CLASSES,)}
        loss = objective(nn.Identity(), batch, CLOCK)
        torch.testing.assert_close(loss, F.cross_entropy(batch.x + noise, batch.y))
        assert not torch.equal(loss, F.cross_entropy(batch.x, batch.y))

    def test_loss_and_mixer_can_both_ask(self) -> None:
        mixer = SharesLabels(torch.zeros(12))
        mixer.draws = {"share": ()}
        assert dict(Classify(loss=NoisyLoss(reduction="none"), mixer=mixer).draws) == {"noise": (CLASSES,), "share": ()}


class TestLayers:
    def images(self, size: int = 6) -> Batch:
        return made_batch(size)._replace(x=torch.randn(size, 1, 8, 8))

    def test_features_are_mixed_at_the_bound_layers(self) -> None:
        net = build_net("small", channels=1, classes=CLASSES, seed=0)
        batch, shares = self.images(), torch.rand(6) * 0.5
        objective = Classify(mixer=MixesAt(("input", "group2"), shares))
        keys = list(net.state_dict())
        objective.bind(net)
        assert list(net.state_dict()) == keys
        mix = Mix(batch.partner, batch.inverse, shares)
        body = build_net("small", channels=1, classes=CLASSES, seed=0).backbone
        z = blend(body.get_submodule("group2")(body.get_submodule("group1")(blend(batch.x, mix))), mix)
        wanted = F.cross_entropy(net.head(body.get_submodule("group3")(z).mean((2, 3))), batch.y)
        torch.testing.assert_close(objective(net, batch, CLOCK), wanted)

    def test_no_mix_stays_behind(self) -> None:
        net = build_net("small", channels=1, classes=CLASSES, seed=0)
        batch = self.images()
        objective = Classify(mixer=MixesAt(("group2",), torch.full((6,), 0.5)))
        objective.bind(net)
        objective(net, batch, CLOCK)
        net.eval()
        twin = build_net("small", channels=1, classes=CLASSES, seed=0)
        twin.load_state_dict(net.state_dict())
        assert torch.equal(net(batch.x), twin.eval()(batch.x))

    def test_bound_anew_it_lets_the_first_network_go(self) -> None:
        first, second = (build_net("small", channels=1, classes=CLASSES, seed=0) for _ in range(2))
        batch = self.images()
        objective = Classify(mixer=MixesAt(("group2",), torch.full((6,), 0.5)))
        for net in (first, first, second):
            objective.bind(net)
        plain = F.cross_entropy(build_net("small", channels=1, classes=CLASSES, seed=0)(batch.x), batch.y)
        torch.testing.assert_close(objective(first, batch, CLOCK), plain)
        assert not torch.allclose(objective(second, batch, CLOCK), plain)

    def test_a_module_path_is_accepted(self) -> None:
        objective = Classify(mixer=MixesAt(("backbone.group1.conv",), torch.zeros(6)))
        objective.bind(build_net("small", channels=1, classes=CLASSES, seed=0))
        assert [point.name for point in objective.points] == ["backbone.group1.conv"]

    def test_a_layer_that_is_not_there(self) -> None:
        net = build_net("small", channels=1, classes=CLASSES, seed=0)
        message = "layer 'group4' received, but this network mixes at input, group1, group2, group3"
        with pytest.raises(ConfigError, match=message):
            Classify(mixer=MixesAt(("group4",), torch.zeros(6))).bind(net)
        with pytest.raises(LayerError, match="Sequential has no layer 'group4'"):
            Classify(mixer=MixesAt(("group4",), torch.zeros(6))).bind(nn.Sequential(nn.ReLU()))

    def test_without_a_mixer_nothing_is_bound(self) -> None:
        objective = Classify()
        objective.bind(build_net("small", channels=1, classes=CLASSES, seed=0))
        assert objective.points == []


@pytest.mark.parametrize("loss", [Focal(), nn.CrossEntropyLoss()])
def test_a_loss_that_reduces_by_itself_is_refused(loss: nn.Module) -> None:
    with pytest.raises(ConfigError, match=f"a {type(loss).__name__} that reduces by itself.*reduction='none'"):
        Classify(loss=loss)


class Averaged(nn.Module):
    """A loss whose mean was not left out, which says nothing of its reduction."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)


def test_a_loss_that_returns_one_number_is_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.LazyLinear(CLASSES))
    with pytest.raises(
        ConfigError,
        match=r"Averaged \(test_objectives.py\) returns the shape \(\), but one number per sample is needed",
    ):
        Classify(loss=Averaged())(net, made_batch(), CLOCK)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returns NoneType, but one number per sample is needed, (12,)"),
        (torch.zeros(6), "returns the shape (6,), but one number per sample is needed, (12,)"),
        (torch.zeros(12, dtype=torch.int64), "returns the shape (12,) of torch.int64, but one number per sample is"),
    ],
)
def test_a_loss_that_returns_something_else_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=r"the loss <lambda> \(test_objectives.py, line \d+\) returns") as raised:
        Classify(loss=lambda logits, labels: returned)(nn.Identity(), made_batch(), CLOCK)  # type: ignore[arg-type]
    assert message in str(raised.value)


class Weighs(nn.Module):
    """Class weights that were not thought through."""

    def __init__(self, weights: Any) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, clock: Clock) -> Any:
        return self.weights


@pytest.mark.parametrize("shape", [(), (3,), (10,), (1, CLASSES), None])
@pytest.mark.parametrize("mixer", [None, SharesLabels(torch.ones(12))])
def test_class_weights_of_another_shape_are_refused(shape: tuple[int, ...] | None, mixer: Mixer | None) -> None:
    weights, told = (None, "NoneType") if shape is None else (torch.ones(shape), f"the shape {shape}")
    message = (
        f"Weighs (test_objectives.py) returns {told} for the class weights, but one number per class is needed, (5,)"
    )
    with pytest.raises(ConfigError, match=re.escape(message)):
        Classify(weight=Weighs(weights), mixer=mixer)(nn.Identity(), made_batch(), CLOCK)


class Returns(Mixer):
    """Mixes at one layer, as a function of the batch says."""

    at = ("input",)

    def __init__(self, mixture: Any) -> None:
        super().__init__()
        self.mixture = mixture

    def forward(self, batch: Batch) -> Any:
        return self.mixture(batch)


def mixed(batch: Batch, label_weight: Any = None, **changes: Any) -> Mixture:
    mix = Mix(batch.partner, batch.inverse, torch.full((6,), 0.5))
    return Mixture((mix._replace(**changes),), label_weight)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (lambda batch: mixed(batch, weight=torch.tensor(0.5)), "the shape () as weight, but one number per sample"),
        (lambda batch: mixed(batch, weight=torch.ones(10)), "the shape (10,) as weight, but one number per sample"),
        (lambda batch: mixed(batch, weight=0.5), "float as weight, but one number per sample is needed, (6,)"),
        (lambda batch: mixed(batch, inverse=None), "NoneType as inverse, but one number per sample is needed, (6,)"),
        (lambda batch: mixed(batch, partner=torch.arange(3)), "the shape (3,) of torch.int64 as partner, but"),
        (lambda batch: mixed(batch, torch.ones(3)), "the shape (3,) as label_weight, but one number per sample is"),
        (lambda batch: mixed(batch, torch.tensor(0.1)), "the shape () as label_weight, but one number per"),
        (lambda batch: Mixture(mixed(batch).mixes * 2, None), "2 mixes for the 1 layers in its `at`, ('input',)"),
        (lambda batch: Mixture((batch.partner,), None), "Mixture; return Mixture(mixes, label_weight), with a Mix"),
        (lambda batch: batch.x, "the shape (6, 1, 8, 8); return Mixture(mixes, label_weight), with a Mix"),
        (lambda batch: None, "NoneType; return Mixture(mixes, label_weight), with a Mix"),
    ],
)
def test_a_mixer_that_returns_something_else_is_refused(mixture: Any, message: str) -> None:
    net = build_net("small", channels=1, classes=CLASSES, seed=0)
    batch = made_batch(6)._replace(x=torch.randn(6, 1, 8, 8))
    objective = Classify(mixer=Returns(mixture))
    objective.bind(net)
    with pytest.raises(ConfigError, match=re.escape(f"the mixer Returns (test_objectives.py) returns {message}")):
        objective(net, batch, CLOCK)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Mixer()(made_batch()), "Mixer does not say how it mixes"),
        (lambda: Objective()(nn.Identity(), made_batch(), CLOCK), "Objective does not say what it minimises"),
    ],
)
def test_what_subclasses_have_to_say(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
