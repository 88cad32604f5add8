"""BBN's network, its slow move between branches, and its loss against a slow reference."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Batch, Clock, Problem
from procrustean.balance.layers import find_layer
from procrustean.balance.samplers import reversed_frequency
from procrustean.balance.types import Images
from procrustean.engine.training import reshape_for
from procrustean.methods import make_method
from procrustean.methods.bbn import Bilateral
from procrustean.nets import Classifier, build_net

PROBLEM = Problem((50, 20, 5), "long_tailed", "cifar10")


def forked(name: str = "small", classes: int = 3, seed: int = 0, channels: int = 1) -> Classifier:
    method = make_method("bbn", Problem((5,) * classes, "step", "cifar10"))
    net = build_net(name, channels=channels, classes=classes, seed=seed)
    reshape_for(net, method, 0, seed)
    return net


def bilateral(source: str) -> Bilateral:
    objective = make_method("bbn", Problem((50, 20, 5), "long_tailed", source)).stages[0].objective
    assert isinstance(objective, Bilateral)
    return objective


def clock(epoch: int, epochs: int) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(0.1), epochs)


@pytest.fixture
def batch() -> Batch:
    torch.manual_seed(0)
    x, other = torch.randn(2, 6, 1, 8, 8, dtype=torch.float64)
    partner = torch.arange(6)
    return Batch(x, torch.tensor([0, 0, 0, 1, 1, 2]), partner, partner, {}, Images(other, torch.tensor([2] * 5 + [0])))


class TestNetwork:
    def test_it_has_the_published_number_of_parameters(self) -> None:
        assert sum(p.numel() for p in forked("resnet32", 10, channels=3).parameters()) == 538_778

    def test_the_last_block_is_there_twice_with_weights_of_its_own(self) -> None:
        group = forked("resnet20", channels=3).backbone.group4
        assert (len(group.shared), len(list(group.children()))) == (2, 3)
        own, twin = group.conventional.state_dict(), group.rebalancing.state_dict()
        assert own.keys() == twin.keys()
        different = {key for key in own if not torch.equal(own[key], twin[key])}
        assert different == {key for key in own if key.endswith("conv.weight")}

    def test_the_rest_is_the_network_it_was_made_from(self) -> None:
        plain, net = build_net("resnet20", channels=3, classes=3, seed=4), forked("resnet20", 3, seed=4, channels=3)
        shared = {key: value for key, value in plain.backbone.state_dict().items() if "group4.2." not in key}
        found = {key.replace("group4.shared.", "group4."): v for key, v in net.backbone.state_dict().items()}
        assert all(torch.equal(found[key], value) for key, value in shared.items())

    @pytest.mark.parametrize("name", ["small", "resnet20"])
    def test_layers_keep_their_published_names(self, name: str) -> None:
        plain, net = (build(name) for build in (lambda n: build_net(n, channels=1, classes=3, seed=0), forked))
        assert net.mixable == plain.mixable
        assert net.second_group == plain.second_group
        for layer in net.mixable:
            assert isinstance(find_layer(net, layer), nn.Module)
        assert net.backbone.features == 2 * plain.backbone.features == net.head.in_features

    def test_no_weight_is_saved_twice(self) -> None:
        net = forked()
        pointers = [value.data_ptr() for value in net.state_dict().values()]
        assert len(pointers) == len(set(pointers))

    def test_features_are_those_of_the_branches_side_by_side(self) -> None:
        net, x = forked().eval(), torch.randn(4, 1, 8, 8)
        halves = [net.backbone.branch(x, "conventional"), net.backbone.branch(x, "rebalancing")]
        torch.testing.assert_close(net.backbone(x), torch.cat(halves, 1))
        assert not torch.allclose(*halves)

    def test_the_same_seed_gives_the_same_twin(self) -> None:
        one, same, other = (forked(seed=seed).backbone.group3.rebalancing.conv.weight for seed in (0, 0, 1))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


class TestMove:
    @pytest.mark.parametrize("source", ["cifar10", "photos"])
    @pytest.mark.parametrize("epochs", [1, 10, 90, 180, 200])
    def test_the_share_falls_by_the_square(self, epochs: int, source: str) -> None:
        objective = bilateral(source)
        for epoch in range(epochs):  # T of the formula counts from 1
            wanted = 1 - (((epoch + 1) - 1) / epochs) ** 2
            assert objective.share(clock(epoch, epochs)).item() == pytest.approx(wanted, abs=1e-6)

    @pytest.mark.parametrize(("epochs", "stretched"), [(90, 100), (180, 200), (100, 100)])
    def test_two_lengths_are_stretched_on_inaturalist_as_published(self, epochs: int, stretched: int) -> None:
        share = bilateral("inaturalist18").share(clock(45, epochs))
        assert share.item() == pytest.approx(1 - (45 / stretched) ** 2)


class Half(Bilateral):
    def share(self, clock: Clock) -> Tensor:
        return torch.tensor(0.5)


class TestLoss:
    @pytest.mark.parametrize("epoch", [0, 3, 9])
    def test_it_equals_the_slow_reference(self, batch: Batch, epoch: int) -> None:
        net = forked().double()
        assert batch.extra is not None
        reference = copy.deepcopy(net)
        own = reference.backbone.branch(batch.x, "conventional").tolist()
        other = reference.backbone.branch(batch.extra.x, "rebalancing").tolist()
        share, total = 1 - (epoch / 10) ** 2, 0.0
        for i in range(6):
            feature = [2 * share * f for f in own[i]] + [2 * (1 - share) * f for f in other[i]]
            scores = nn.functional.linear(
                torch.tensor(feature, dtype=torch.float64), reference.head.weight, reference.head.bias
            ).tolist()
            log_sum = torch.tensor(scores).double().logsumexp(0).item()
            total += share * (log_sum - scores[batch.y[i]]) + (1 - share) * (log_sum - scores[batch.extra.y[i]])
        found = Bilateral()(net, batch, clock(epoch, 10))
        assert found.item() == pytest.approx(total / 6, rel=1e-5)

    def test_at_one_half_the_feature_is_that_of_evaluation(self, batch: Batch) -> None:
        net = forked().double().eval()
        seen: list[Tensor] = []
        net.head.register_forward_hook(lambda module, args, output: seen.append(args[0]))
        Half()(net, batch._replace(extra=Images(batch.x, batch.y)), clock(0, 10))
        net(batch.x)
        torch.testing.assert_close(seen[0], seen[1])

    def test_at_first_it_is_cross_entropy_of_the_conventional_branch(self, batch: Batch) -> None:
        net = forked().double()
        loss = Bilateral()(net, batch, clock(0, 10))
        loss.backward()
        assert all(not p.grad.any() for p in net.backbone.group3.rebalancing.parameters())
        half = net.backbone.branch(batch.x, "conventional")
        scores = 2 * half @ net.head.weight[:, :64].T + net.head.bias
        torch.testing.assert_close(loss, nn.functional.cross_entropy(scores, batch.y))


def test_the_second_stream_is_of_reversed_frequency() -> None:
    stage = make_method("bbn", PROBLEM).stages[0]
    assert stage.extra is reversed_frequency
    assert stage.sampler is None


def test_class_weights_are_refused() -> None:
    from procrustean.base import ConfigError

    options: dict[str, Any] = {"drw": True}
    with pytest.raises(ConfigError, match="method 'bbn' takes no drw: it balances the classes"):
        make_method("bbn", PROBLEM, options)
