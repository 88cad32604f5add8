"""De-confound and its total direct effect against a slow reference, and their limits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.engine.training import reshape_for
from procrustean.methods import make_method
from procrustean.methods.deconfound import CausalHead
from procrustean.nets import build_net

PROBLEM = Problem((50, 20, 5), "long_tailed", "cifar10")


def norm(values: list[float]) -> float:
    return math.sqrt(sum(v * v for v in values))


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def slow_scores(
    features: Tensor, weight: Tensor, *, parts: int, scale: float, gamma: float, average: Tensor, effect: float
) -> Tensor:
    width = features.shape[1] // parts
    scores = torch.zeros(len(features), len(weight), dtype=torch.float64)
    for i, x in enumerate(features.double().tolist()):
        for c, w in enumerate(weight.double().tolist()):
            for k in range(parts):
                part = slice(k * width, (k + 1) * width)
                x_k, w_k, d_k = x[part], w[part], average.double().tolist()[part]
                direct = dot(x_k, w_k) / norm(x_k)
                cosine = dot(x_k, d_k) / (norm(x_k) * norm(d_k)) if norm(d_k) else 0.0
                shared = cosine * dot(d_k, w_k) / norm(d_k) if norm(d_k) else 0.0
                scores[i, c] += scale / parts * (direct - effect * shared) / (norm(w_k) + gamma)
    return scores


@pytest.fixture
def head() -> CausalHead:
    torch.manual_seed(0)
    made = CausalHead(12, 5, parts=3, scale=7.0, gamma=0.1, momentum=0.8, effect=1.5)
    for _ in range(3):
        made(torch.rand(6, 12) + 0.2)
    return made


@pytest.mark.parametrize("training", [True, False])
def test_scores_equal_the_slow_reference(head: CausalHead, training: bool) -> None:
    features = torch.rand(4, 12) - 0.2
    found = head.train(training)(features)
    wanted = slow_scores(
        features,
        head.weight,
        parts=3,
        scale=7.0,
        gamma=0.1,
        average=head.average,
        effect=0.0 if training else 1.5,
    )
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_the_gradient_is_that_of_the_formula() -> None:
    torch.manual_seed(1)
    for head in (CausalHead(6, 4).double(), CausalHead(6, 4, effect=1.0).double().eval()):
        head.average.copy_(torch.randn(6))
        features = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(head, (features,))


def test_the_average_moves_by_the_formula_in_training_alone(head: CausalHead) -> None:
    place, before = head.average.data_ptr(), head.average.clone()
    features = torch.randn(6, 12, requires_grad=True)
    head(features)
    torch.testing.assert_close(head.average, 0.8 * before + features.detach().mean(0))
    assert not head.average.requires_grad
    assert head.average.data_ptr() == place
    after = head.average.clone()
    head.eval()(features)
    assert torch.equal(head.average, after)
    assert "average" in head.state_dict()


def test_an_effect_of_0_is_de_confound(head: CausalHead) -> None:
    plain = CausalHead(12, 5, parts=3, scale=7.0, gamma=0.1, momentum=0.8)
    plain.load_state_dict(head.state_dict())
    features = torch.rand(4, 12)
    assert not torch.allclose(head.eval()(features), plain.eval()(features))
    head.effect = 0.0
    assert torch.equal(head(features), plain(features))


def test_an_effect_of_1_leaves_nothing_of_the_common_direction(head: CausalHead) -> None:
    head.effect = 1.0
    torch.testing.assert_close(head.eval()(head.average[None]), torch.zeros(1, 5), rtol=0, atol=1e-5)


def test_before_training_nothing_is_taken_out() -> None:
    head = CausalHead(6, 4, effect=1.0)
    features = torch.rand(3, 6)
    scores = head.eval()(features)
    head.effect = 0.0
    assert torch.equal(scores, head(features))


def test_low_precision_features_are_handled_in_float32(head: CausalHead) -> None:
    features = torch.rand(4, 12).bfloat16()
    wanted = head.eval()(features.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head(features)
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)


def test_initial_weights_lie_in_the_published_range() -> None:
    torch.manual_seed(0)
    weight = CausalHead(64, 100).weight
    assert 0.99 / 8 < weight.abs().max() <= 1 / 8


def test_parts_have_to_divide_the_feature() -> None:
    with pytest.raises(ConfigError, match="3 parts received for a feature of width 64"):
        CausalHead(64, 10, parts=3)


@pytest.mark.parametrize(
    ("source", "options", "effect"),
    [
        ("cifar10", {}, 0.0),
        ("cifar10", {"tde": True}, 1.0),
        ("cifar100", {"tde": True}, 1.5),
        ("imagenet-lt", {"tde": True}, 3.0),
        ("mine", {"tde": True}, 1.0),
        ("cifar10", {"tde": True, "alpha": 2.5}, 2.5),
        ("cifar10", {"alpha": 2.5}, 0.0),
    ],
)
def test_defaults_by_data_set(source: str, options: dict[str, object], effect: float) -> None:
    method = make_method("deconfound", Problem((5, 2), "step", source), options)
    assert method.head is not None
    head = method.head(64, 10)
    assert isinstance(head, CausalHead)
    assert (head.effect, head.parts, head.scale, head.gamma, head.momentum) == (effect, 2, 16.0, 1 / 32, 0.9)


def test_the_published_network_has_two_branches() -> None:
    method = make_method("deconfound", Problem((5,) * 10, "step", "cifar10"), {"two_branches": True})
    net = build_net("resnet32", channels=3, classes=10, seed=0, head=method.head)
    reshape_for(net, method, 0, seed=0)
    assert sum(p.numel() for p in net.backbone.parameters()) == 537_488
    assert net.eval()(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert net.head.weight.shape == (10, 128)


def test_large_batches_are_for_cifar_alone() -> None:
    cifar, mine = (make_method("deconfound", Problem((5, 2), "step", source)).own for source in ("cifar10", "mine"))
    assert (cifar["batch_size"], cifar["lr"], cifar["weight_decay"]) == (256, 0.2, 5e-4)
    assert not mine.keys() & {"batch_size", "lr", "weight_decay"}
