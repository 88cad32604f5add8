"""Full steps of the two-level methods against gradients written out by hand, in float64 on a tiny network."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from procrustean.balance import Batch, Clock, Problem
from procrustean.balance.samplers import in_turn
from procrustean.balance.types import Images
from procrustean.base import ConfigError, Stream
from procrustean.methods import make_method
from procrustean.methods.domain_adaptation import ConditionalWeights
from procrustean.methods.lookahead import effects
from procrustean.methods.meta_weight import MetaWeighted
from procrustean.nets import build_net

COUNTS = (24, 12, 3)
PROBLEM = Problem(COUNTS, "long_tailed", "digits", ("input", "group1", "group2", "group3"), "group2")
RATE = 0.3


class Affine(nn.Module):
    """Batch normalisation and a linear layer: parameters, statistics, and a softmax that is easily written out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(torch.tanh(self.norm(x)))
        return scores


@pytest.fixture
def net() -> Affine:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Affine().double()


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(5)
    x, meta = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (7, 6))
    order = torch.arange(7)
    y = torch.tensor([0, 0, 0, 1, 1, 2, 0])
    return Batch(x, y, order, order, {}, Images(meta, torch.tensor([0, 1, 2, 0, 1, 2])))


def clock(epoch: int, epochs: int = 10) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(RATE, dtype=torch.float64), epochs)


def scores_of(parameters: list[Tensor], x: Tensor) -> Tensor:
    """The tiny network by its formula, with the statistics of the batch."""
    scale, shift, weight, bias = parameters
    normal = (x - x.mean(0)) / torch.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-5)
    return torch.tanh(normal * scale + shift) @ weight.T + bias


def losses_of(parameters: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
    scores = scores_of(parameters, x)
    return torch.logsumexp(scores, 1) - scores[torch.arange(len(y)), y]


def moved(parameters: list[Tensor], loss: Tensor) -> list[Tensor]:
    return [p - RATE * g for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True)]


def central_difference(function: Any, at: Tensor, step: float = 1e-5) -> Tensor:
    """The gradient of a function of a vector, coordinate by coordinate."""
    slopes = []
    for index in range(at.numel()):
        offset = torch.zeros_like(at)
        offset.view(-1)[index] = step
        slopes.append((function(at + offset) - function(at - offset)) / (2 * step))
    return torch.stack(slopes).view(at.shape)


def own(net: nn.Module) -> list[Tensor]:
    return [p.detach().clone().requires_grad_() for p in net.parameters()]


def at(objective: ConditionalWeights, epoch: int) -> ConditionalWeights:
    """The objective in an epoch of ten, as the trainer sets it."""
    objective.phase = objective.phase_at(epoch, 10)
    return objective


class TestDomainAdaptation:
    def test_a_step_is_the_written_out_one(self, net: Affine, batch: Batch) -> None:
        weights = torch.tensor([0.2, 0.7, 2.1], dtype=torch.float64)
        objective = ConditionalWeights(weights, start=0.8, rate=0.01)
        before = copy.deepcopy(net.state_dict())
        loss = at(objective, 8)(net, batch, clock(8))

        def meta(eps: Tensor) -> Tensor:
            parameters = own(net)
            ahead = moved(parameters, ((weights[batch.y] + eps) * losses_of(parameters, batch.x, batch.y)).sum())
            return losses_of(ahead, *batch.extra).mean().detach()  # type: ignore[misc]

        eps = -0.01 * central_difference(meta, torch.zeros(7, dtype=torch.float64))
        assert eps.abs().max() > 1e-5
        parameters = own(net)
        wanted = torch.mean((weights[batch.y] + eps) * losses_of(parameters, batch.x, batch.y))
        torch.testing.assert_close(loss, wanted, rtol=1e-8, atol=0)
        torch.testing.assert_close(
            torch.autograd.grad(loss, list(net.parameters())),
            torch.autograd.grad(wanted, parameters),
            rtol=1e-7,
            atol=1e-9,
        )
        # Running statistics follow the one real forward pass alone.
        torch.testing.assert_close(net.norm.running_mean, 0.9 * before["norm.running_mean"] + 0.1 * batch.x.mean(0))

    def test_plain_before_the_last_fifth(self, net: Affine, batch: Batch) -> None:
        objective = ConditionalWeights(torch.tensor([0.2, 0.7, 2.1]).double(), start=0.8, rate=0.01)
        plain = losses_of(own(net), batch.x, batch.y).mean()
        torch.testing.assert_close(at(objective, 7)(net, batch, clock(7)), plain)
        assert not torch.isclose(at(objective, 8)(net, batch, clock(8)), plain)

    def test_rate_0_leaves_the_class_weights(self, net: Affine, batch: Batch) -> None:
        weights = torch.tensor([0.2, 0.7, 2.1], dtype=torch.float64)
        objective = ConditionalWeights(weights, start=0.0, rate=0.0)
        wanted = torch.mean(weights[batch.y] * losses_of(own(net), batch.x, batch.y))
        torch.testing.assert_close(at(objective, 0)(net, batch, clock(0)), wanted)

    @pytest.mark.parametrize(("option", "value"), [("start", 1.5), ("start", -0.1), ("rate", -1.0), ("beta", 1.0)])
    def test_numbers_that_cannot_be_are_refused(self, option: str, value: float) -> None:
        with pytest.raises(ConfigError, match=f"{option} = {value}"):
            make_method("domain_adaptation", PROBLEM, {option: value})


class TestMetaWeight:
    @pytest.mark.parametrize("norm", [True, False])
    def test_two_steps_are_the_written_out_ones(self, norm: bool, net: Affine, batch: Batch) -> None:
        objective = MetaWeighted(norm=norm).double()
        with torch.random.fork_rng():
            torch.manual_seed(8)
            objective.weigher.draw(net)  # type: ignore[arg-type]
        theta = torch.cat([p.detach().reshape(-1) for p in objective.weigher.parameters()])
        velocity = torch.zeros_like(theta)
        for _ in range(2):
            meta_slope = central_difference(lambda t: self.meta(t, net, batch, norm), theta)
            assert meta_slope.abs().max() > 1e-5
            slope = meta_slope + 5e-4 * theta
            velocity = 0.9 * velocity + slope
            before, theta = theta, theta - 1e-5 * (slope + 0.9 * velocity)
            loss = objective(net, batch, clock(0))
            found = torch.cat([p.detach().reshape(-1) for p in objective.weigher.parameters()])
            torch.testing.assert_close((found - before) / 1e-5, (theta - before) / 1e-5, rtol=1e-5, atol=1e-8)
            parameters = own(net)
            losses = losses_of(parameters, batch.x, batch.y)
            wanted = self.weighted(losses, self.weigh(theta, losses).detach(), norm)
            torch.testing.assert_close(loss, wanted, rtol=1e-8, atol=0)
            torch.testing.assert_close(
                torch.autograd.grad(loss, list(net.parameters())), torch.autograd.grad(wanted, parameters)
            )

    @staticmethod
    def weigh(theta: Tensor, losses: Tensor) -> Tensor:
        first, first_bias, second, second_bias = theta.split([100, 100, 100, 1])
        return torch.sigmoid(torch.relu(losses[:, None] * first + first_bias) @ second + second_bias)

    @staticmethod
    def weighted(losses: Tensor, weights: Tensor, norm: bool) -> Tensor:
        return (weights * losses).sum() / (weights.sum() if norm else len(losses))

    def meta(self, theta: Tensor, net: nn.Module, batch: Batch, norm: bool) -> Tensor:
        parameters = own(net)
        losses = losses_of(parameters, batch.x, batch.y)
        weights = self.weigh(theta, losses if norm else losses.detach())
        ahead = moved(parameters, self.weighted(losses, weights, norm))
        return losses_of(ahead, *batch.extra).mean().detach()  # type: ignore[misc]

    def test_weights_that_are_all_0_are_not_divided_by(self) -> None:
        objective = MetaWeighted(norm=True)
        assert objective.weighted(torch.tensor([1.0, 2.0]), torch.zeros(2)).item() == 0
        assert objective.weighted(torch.tensor([1.0, 2.0]), torch.tensor([0.1, 0.3])).item() == pytest.approx(1.75)

    def test_the_weighing_network_is_drawn_from_the_seed(self, net: Affine) -> None:
        method = make_method("meta_weight", PROBLEM)
        (stage,) = method.stages
        drawn = []
        for seed in (0, 0, 1):
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                stage.reshape(net)  # type: ignore[misc, arg-type]
            drawn.append(stage.objective.state_dict()["weigher.first.weight"].clone())
        assert torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[0], drawn[2])

    def test_the_state_of_its_optimiser_is_saved(self) -> None:
        names = set(MetaWeighted(norm=True).state_dict())
        parameters = {f"{layer}.{kind}" for layer in ("first", "second") for kind in ("weight", "bias")}
        velocities = {"velocity_" + name.replace(".", "_") for name in parameters}
        assert names == {"weigher." + name for name in parameters | velocities}


def test_a_look_ahead_changes_nothing(net: Affine, batch: Batch) -> None:
    before = copy.deepcopy(net.state_dict())
    losses, slopes = effects(net, batch, torch.mean, torch.tensor(RATE, dtype=torch.float64))
    torch.testing.assert_close(losses, losses_of(own(net), batch.x, batch.y).detach())
    assert slopes.abs().min() > 0
    assert not losses.requires_grad
    assert not slopes.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_a_look_ahead_through_a_convolutional_network() -> None:
    """Against gradients of gradients, on the network of the experiments in small."""
    net = build_net("resnet20", channels=3, classes=3, seed=0).double().train()
    generator = torch.Generator().manual_seed(0)
    x, meta = (torch.randn(n, 3, 8, 8, generator=generator, dtype=torch.float64) for n in (6, 5))
    y = torch.tensor([0, 0, 1, 1, 2, 0])
    batch = Batch(x, y, y, y, {}, Images(meta, torch.tensor([0, 1, 2, 0, 1])))
    weights = dict(net.named_parameters())
    eps = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    losses = F.cross_entropy(net(x), y, reduction="none")
    slopes = torch.autograd.grad(torch.sum((1 + eps) * losses), tuple(weights.values()), create_graph=True)
    ahead = {name: p - 0.01 * g for (name, p), g in zip(weights.items(), slopes, strict=True)}
    statistics = {name: buffer.clone() for name, buffer in net.named_buffers()}
    scores = functional_call(net, {**ahead, **statistics}, (meta,))
    (wanted,) = torch.autograd.grad(F.cross_entropy(scores, batch.extra.y), eps)  # type: ignore[union-attr]
    _, found = effects(net, batch, torch.sum, torch.tensor(0.01, dtype=torch.float64))
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-12)


def test_all_images_come_before_any_comes_again() -> None:
    drawn = in_turn(torch.arange(10).numpy() // 5, 34, Stream(0, "test"))
    assert len(drawn) == 34
    rounds = [drawn[start : start + 10].tolist() for start in (0, 10, 20)]
    assert all(sorted(part) == list(range(10)) for part in rounds)
    assert all(one != other for one, other in pairwise(rounds))
    assert len(set(drawn[30:].tolist())) == 4
