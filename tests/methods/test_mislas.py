"""The two stages of MiSLAS: published numbers, rates, and what each of them trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from procrustean.balance import Classify, LabelAwareSmoothing, Problem
from procrustean.balance.samplers import class_aware
from procrustean.data import lr_table, recipe_for
from procrustean.engine.training import reshape_for, stage_epochs
from procrustean.methods import Stage, make_method
from procrustean.methods.mixup import ImageMixing
from procrustean.nets import build_net
from procrustean.nets.classifier import ScaledHead
from procrustean.runs import fit


def stages(source: str, ratio: int, **options: object) -> tuple[Stage, ...]:
    return make_method("mislas", Problem((5 * ratio, 20, 5), "long_tailed", source), options).stages


def smoothing(stage: Stage) -> tuple[float, float]:
    assert isinstance(stage.objective, Classify)
    assert isinstance(stage.objective.loss, LabelAwareSmoothing)
    return stage.objective.loss.smoothing[0].item(), stage.objective.loss.smoothing[-1].item()


@pytest.mark.parametrize(
    ("source", "ratio", "head", "tail", "rate", "norm"),
    [
        ("cifar10", 100, 0.3, 0.0, 0.5, "eval"),
        ("cifar10", 50, 0.2, 0.0, 0.2, "eval"),
        ("cifar10", 10, 0.1, 0.0, 0.2, "eval"),
        ("cifar100", 100, 0.4, 0.1, 0.2, "train"),
        ("cifar100", 50, 0.3, 0.0, 0.1, "train"),
        ("cifar100", 10, 0.2, 0.0, 0.1, "train"),
        ("cifar10", 200, 0.3, 0.0, 0.5, "eval"),
        ("mine", 100, 0.3, 0.0, 0.5, "eval"),
    ],
)
def test_published_numbers(source: str, ratio: int, head: float, tail: float, rate: float, norm: str) -> None:
    first, second = stages(source, ratio)
    assert isinstance(first.objective, Classify)
    assert isinstance(first.objective.mixer, ImageMixing)
    assert first.sampler is None
    assert smoothing(second) == pytest.approx((head, tail))
    assert second.rates == {"head.linear": rate}
    assert (second.norm, second.trainable, second.sampler) == (norm, "head", class_aware)


def test_options_stand_above_the_published_numbers() -> None:
    _, second = stages("cifar10", 100, head=0.25, tail=0.05, head_rate=0.0, bn_mode="train")
    assert smoothing(second) == pytest.approx((0.25, 0.05))
    assert second.rates == {"head.linear": 0.0}
    assert second.norm == "train"


def test_classes_of_one_size_are_smoothed_alike() -> None:
    _, second = make_method("mislas", Problem((7, 7, 7), "step", "cifar10")).stages
    assert smoothing(second) == pytest.approx((0.1, 0.1))


def test_the_own_recipe() -> None:
    method = make_method("mislas", Problem((500, 20, 5), "long_tailed", "cifar10"))
    recipe = recipe_for("cifar10").changed(method.own)
    assert stage_epochs(method, recipe.epochs) == [200, 10]
    first = lr_table(recipe, 200)
    assert [first[e] for e in (4, 159, 160, 179, 180, 199)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    second = lr_table(recipe.changed(method.stages[1].recipe), 10)
    assert second[0] == 0.1
    assert second[5] == pytest.approx(0.05)
    assert second[9] == pytest.approx(0.1 * 0.5 * (1 + torch.cos(torch.tensor(0.9 * torch.pi)).item()))


def test_stage_2_begins_with_the_scores_of_stage_1() -> None:
    method = make_method("mislas", Problem((50, 20, 5), "long_tailed"))
    net = build_net("small", channels=1, classes=3, seed=0).eval()
    x = torch.randn(6, 1, 8, 8)
    before = net(x)
    reshape_for(net, method, 1, seed=0)
    assert isinstance(net.head, ScaledHead)
    assert torch.equal(net(x), before)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_stage_2_trains_scales_and_head_at_their_rates(mode: str, tmp_path: Path) -> None:
    settings = {"imbalance": "step", "rho": 10, "device": "cpu", "precision": "fp32"}
    mixup = fit("digits", **settings, epochs=3, method="mixup", run_dir=tmp_path / "mixup")
    runs = [
        fit("digits", **settings, epochs=4, method="mislas", options={"bn_mode": mode, "head_rate": rate},
            run_dir=tmp_path / str(rate)).net.state_dict()
        for rate in (0.0, 0.5)
    ]  # fmt: skip
    first = mixup.net.state_dict()
    for second in runs:
        moved = [key for key in first if key.startswith("backbone.") and not torch.equal(first[key], second[key])]
        assert all("running" in key for key in moved)
        assert bool(moved) == (mode == "train")
        assert not torch.equal(second["head.scale"], torch.ones(10))
    assert torch.equal(runs[0]["head.linear.weight"], first["head.weight"])
    assert not torch.equal(runs[1]["head.linear.weight"], first["head.weight"])
