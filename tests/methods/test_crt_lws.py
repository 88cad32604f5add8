"""What the second stages of cRT and LWS change, and what they leave."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from procrustean.balance import Problem
from procrustean.balance.samplers import class_aware
from procrustean.data import lr_table, recipe_for
from procrustean.engine.training import reshape_for, stage_epochs
from procrustean.methods import make_method
from procrustean.nets import build_net
from procrustean.nets.classifier import ScaledHead
from procrustean.records import RunSpec
from procrustean.runs import fit
from procrustean.runs.preparing import recipe_of

PROBLEM = Problem((50, 20, 5), "long_tailed", "cifar10")


def gradual(name: str) -> list[float]:
    """Rates of stage 2 with the method's own recipe on CIFAR."""
    method = make_method(name, PROBLEM)
    recipe = recipe_for("cifar10").changed(method.own)
    assert stage_epochs(method, recipe.epochs) == [200, 30]
    second = recipe.changed(method.stages[1].recipe)
    assert (second.batch_size, second.weight_decay) == (128, 5e-4)
    return lr_table(second, 30)


@pytest.mark.parametrize("name", ["crt", "lws"])
def test_the_own_recipe_has_30_epochs_in_steps(name: str) -> None:
    rates = gradual(name)
    assert rates[:5] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])
    assert rates[5:10] == pytest.approx([0.1] * 5)
    assert rates[10:20] == pytest.approx([0.01] * 10)
    assert rates[20:] == pytest.approx([0.001] * 10)


@pytest.mark.parametrize("name", ["crt", "lws"])
def test_the_papers_recipe_stays_a_cosine(name: str) -> None:
    method = make_method(name, PROBLEM)
    recipe = recipe_of(RunSpec("cifar10", method=name))
    assert stage_epochs(method, recipe.epochs) == [200, 30]
    rates = lr_table(recipe.changed(method.stages[1].recipe), 30)
    assert rates[5] == 0.1
    assert all(later < earlier for earlier, later in pairwise(rates[5:]))
    assert recipe_of(RunSpec("digits", method=name)).epochs == recipe_for("digits").epochs


@pytest.mark.parametrize("name", ["crt", "lws"])
def test_the_second_stage_is_of_the_head_on_balanced_classes(name: str) -> None:
    second = make_method(name, PROBLEM).stages[1]
    assert second.sampler is class_aware
    assert second.trainable == {"crt": "head", "lws": "head.scale"}[name]
    assert second.norm == "train"
    assert make_method(name, PROBLEM, {"bn_mode": "eval"}).stages[1].norm == "eval"


def test_crt_begins_with_a_new_head_in_pytorchs_range() -> None:
    method = make_method("crt", PROBLEM)
    net = build_net("small", channels=1, classes=3, seed=0)
    trained = copy.deepcopy(net.state_dict())
    reshape_for(net, method, 1, seed=0)
    bound = net.head.in_features**-0.5
    assert not torch.equal(net.head.weight, trained["head.weight"])
    assert not torch.equal(net.head.bias, trained["head.bias"])
    assert max(net.head.weight.abs().max(), net.head.bias.abs().max()) <= bound
    assert net.head.weight.abs().max() > 0.9 * bound
    for name, value in net.backbone.state_dict().items():
        assert torch.equal(value, trained[f"backbone.{name}"])


def test_lws_begins_with_the_scores_of_stage_1() -> None:
    method = make_method("lws", PROBLEM)
    net = build_net("small", channels=1, classes=3, seed=0).eval()
    x = torch.randn(6, 1, 8, 8)
    before = net(x)
    reshape_for(net, method, 1, seed=0)
    assert torch.equal(net(x), before)
    assert {name for name, _ in net.head.named_parameters()} == {"scale", "linear.weight", "linear.bias"}


def test_scales_multiply_the_whole_score() -> None:
    torch.manual_seed(0)
    head = ScaledHead(nn.Linear(4, 3)).double()
    with torch.no_grad():
        head.scale.copy_(torch.tensor([0.5, 1.0, 3.0]))
    features = torch.randn(5, 4, dtype=torch.float64)
    w, b, s = head.linear.weight.tolist(), head.linear.bias.tolist(), head.scale.tolist()
    wanted = [
        [s[c] * (sum(wi * fi for wi, fi in zip(w[c], f, strict=True)) + b[c]) for c in range(3)]
        for f in features.tolist()
    ]
    torch.testing.assert_close(head(features), torch.tensor(wanted, dtype=torch.float64))
    features.requires_grad_()
    assert torch.autograd.gradcheck(head, (features,))


def test_scores_of_low_precision_become_float32() -> None:
    head = ScaledHead(nn.Linear(4, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head.linear(torch.randn(2, 4)).dtype == torch.bfloat16
        assert head(torch.randn(2, 4)).dtype == torch.float32


@pytest.mark.parametrize(("name", "mode"), [("crt", "train"), ("crt", "eval"), ("lws", "train"), ("lws", "eval")])
def test_stage_2_leaves_the_features(name: str, mode: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"imbalance": "step", "rho": 10, "epochs": 4, "device": "cpu", "precision": "fp32"}
    erm = fit("digits", **{**settings, "epochs": 3}, method="erm", run_dir=tmp_path / "erm")
    run = fit("digits", **settings, method=name, options={"bn_mode": mode}, run_dir=tmp_path / "run")
    assert [stage.epochs for stage in run.record.method.stages] == [3, 1]
    first, second = erm.net.state_dict(), run.net.state_dict()
    moved = [key for key in first if key.startswith("backbone.") and not torch.equal(first[key], second[key])]
    assert all("running" in key for key in moved)
    assert bool(moved) == (mode == "train")
    if name == "lws":
        assert torch.equal(second["head.linear.weight"], first["head.weight"])
        assert torch.equal(second["head.linear.bias"], first["head.bias"])
        assert not torch.equal(second["head.scale"], torch.ones(10))
    else:
        assert not torch.equal(second["head.weight"], first["head.weight"])
