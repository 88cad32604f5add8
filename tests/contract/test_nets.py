"""What every network in the table has to do, whatever it is."""

from __future__ import annotations

import pytest
import torch

from procrustean.balance import suggest
from procrustean.nets import NETS, Classifier, build_net, restart


@pytest.fixture(scope="module", params=NETS)
def net(request: pytest.FixtureRequest) -> Classifier:
    before = torch.get_rng_state()
    made = build_net(request.param, channels=3, classes=10, seed=0)
    assert torch.equal(torch.get_rng_state(), before), "initial weights are drawn from a generator of their own"
    return made


def test_it_publishes_its_layers(net: Classifier) -> None:
    assert next(iter(net.mixable)) == "input"
    assert net.second_group in net.mixable
    assert all(net.get_submodule(path) is not None for path in net.mixable.values())
    found = suggest(net, torch.randn(2, 3, 32, 32))
    assert (found.second_group, found.reason) == ("group2", "published by the network")
    assert [candidate.name for candidate in found][:3] == ["input", "group1", "group2"]


def test_it_makes_a_feature_and_scores(net: Classifier) -> None:
    x = torch.randn(2, 3, 32, 32)
    assert net.backbone(x).shape == (2, net.backbone.features)
    assert net(x).shape == (2, 10)


def test_the_chain_leads_from_the_image_to_the_last_group_whose_mean_is_the_feature(net: Classifier) -> None:
    backbone = net.backbone
    if not backbone.chain:
        pytest.skip("it says that it cannot be taken apart")
    assert [name for name, _ in backbone.named_children()] == list(backbone.chain)
    assert list(backbone.groups.values())[-1] == backbone.chain[-1]
    backbone.eval()
    x = torch.randn(2, 3, 32, 32)
    last = backbone.map(x)
    torch.testing.assert_close(backbone(x), last.mean((2, 3)))
    assert backbone.shrinks in (0, 32 // last.shape[-1])


def test_evaluation_is_a_function_of_each_image_alone(net: Classifier) -> None:
    x = torch.randn(3, 3, 32, 32)
    scores = net.eval()(x)
    torch.testing.assert_close(net(x[:1]), scores[:1], rtol=1e-3, atol=1e-4)


def test_grey_images_are_taken(net: Classifier, request: pytest.FixtureRequest) -> None:
    (name,) = (name for name in NETS if f"[{name}]" in request.node.name)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        assert NETS[name](channels=1)(torch.empty(2, 1, 32, 32)).shape == (2, net.backbone.features)


def test_it_can_begin_anew(net: Classifier) -> None:
    with torch.random.fork_rng(devices=[]):
        before = {key: value.clone() for key, value in net.named_parameters()}
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(3)
        restart(net)
    for key, value in net.named_parameters():
        assert abs(value.mean() - before[key].mean()) < 1, key
