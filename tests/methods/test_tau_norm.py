"""tau-norm against a slow reference, its limits, and how tau is chosen."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.methods import Method, make_method
from procrustean.methods.method import Judge
from procrustean.methods.tau_norm import GRID
from procrustean.nets import Classifier, build_net
from procrustean.nets.heads import CosineHead
from procrustean.runs import fit

PROBLEM = Problem((50, 20, 5), "long_tailed", "cifar10")


def finished(net: Classifier, judge: Judge | None = None, **options: object) -> dict[str, object]:
    method: Method = make_method("tau_norm", PROBLEM, options)
    assert method.finish is not None
    return method.finish(net, judge)


@pytest.fixture
def net() -> Classifier:
    return build_net("small", channels=1, classes=3, seed=3).eval()


def slow(weight: Tensor, tau: float) -> list[list[float]]:
    rows = weight.double().tolist()
    return [[w / sum(v * v for v in row) ** (tau / 2) for w in row] for row in rows]


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0, 2.0])
def test_class_vectors_equal_the_slow_reference(net: Classifier, tau: float) -> None:
    trained = net.head.weight.detach().clone()
    assert finished(net, tau=tau) == {"tau": tau, "tau_chosen": "as given"}
    wanted = torch.tensor(slow(trained, tau), dtype=torch.float64)
    torch.testing.assert_close(net.head.weight.double(), wanted, rtol=1e-5, atol=1e-6)
    assert not net.head.bias.any()


def test_tau_0_with_its_bias_is_erm(net: Classifier) -> None:
    trained = copy.deepcopy(net)
    finished(net, tau=0.0, keep_bias=True)
    x = torch.randn(5, 1, 8, 8)
    assert torch.equal(net(x), trained(x))
    finished(net, tau=0.0)
    assert not torch.equal(net(x), trained(x))


def test_tau_1_gives_unit_vectors_also_beside_a_vector_of_length_0(net: Classifier) -> None:
    with torch.no_grad():
        net.head.weight[1] = 0
    assert finished(net) == {"tau": 1.0, "tau_chosen": "1, since no images are held out"}
    torch.testing.assert_close(net.head.weight.norm(dim=1), torch.tensor([1.0, 0.0, 1.0]))


def test_the_judge_chooses_and_ties_go_to_the_smallest(net: Classifier) -> None:
    trained = net.head.weight.detach().clone()
    seen: list[Tensor] = []

    def judge() -> float:
        seen.append(net.head.weight.detach().clone())
        return 0.8 if len(seen) - 1 in (7, 9) else 0.5

    assert finished(net, judge) == {"tau": 0.7, "tau_chosen": "on the held-out images"}
    assert GRID == tuple(round(0.1 * i, 1) for i in range(21))
    assert len(seen) == 21
    for tau, weight in zip(GRID, seen, strict=True):
        wanted = torch.tensor(slow(trained, tau), dtype=torch.float64)
        torch.testing.assert_close(weight.double(), wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(net.head.weight, seen[7])


def test_a_cosine_head_is_refused() -> None:
    net = build_net("small", channels=1, classes=3, seed=0, head=CosineHead)
    with pytest.raises(ConfigError, match="tau-norm rescales a linear head, but this network has a CosineHead"):
        finished(net)


@pytest.mark.parametrize("tau", [-0.1, float("nan"), float("inf")])
def test_a_tau_that_cannot_be_is_refused(tau: float) -> None:
    with pytest.raises(ConfigError, match="tau = "):
        make_method("tau_norm", PROBLEM, {"tau": tau})


def test_the_record_names_the_tau_that_was_best_on_the_held_out_images(tmp_path: Path) -> None:
    settings = {"imbalance": "step", "rho": 20, "method": "tau_norm", "epochs": 2, "device": "cpu", "hold_out": 3}
    run = fit("digits", **settings, run_dir=tmp_path / "run")
    found = run.record.method.finish
    assert found["tau"] in GRID
    assert found["tau_chosen"] == "on the held-out images"
    again = fit("digits", **settings, options={"tau": found["tau"]}, run_dir=tmp_path / "again")
    assert again.record.selections.last.metrics == run.record.selections.last.metrics
