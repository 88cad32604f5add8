"""What methods minimise, by epoch: their losses, weights, heads and schedules."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from procrustean.balance import (
    CDT,
    LDAM,
    VS,
    Batch,
    Classify,
    Clock,
    Focal,
    LabelAwareSmoothing,
    LogitAdjusted,
    Problem,
)
from procrustean.base import ConfigError
from procrustean.data import lr_table, recipe_for
from procrustean.methods import SEQL, make_method
from procrustean.nets import build_net
from procrustean.nets.classifier import CosineHead, SigmoidHead

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)


def problem(source: str = "", counts: tuple[int, ...] = C10_LONG_TAILED) -> Problem:
    return Problem(counts, "long_tailed", source, ("input", "group1", "group2", "group3", "group4"))


def objective_of(name: str, source: str = "", **options: object) -> Classify:
    objective = make_method(name, problem(source), options).stages[0].objective
    assert isinstance(objective, Classify)
    return objective


def scores(size: int = 30, classes: int = 10, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, generator=generator)
    return logits, torch.randint(classes, (size,), generator=generator)


def minimised(objective: Classify, logits: Tensor, y: Tensor, epoch: int = 0) -> Tensor:
    order = torch.arange(len(y))
    generator = torch.Generator().manual_seed(5)
    u = {name: torch.rand(len(y), *shape, generator=generator) for name, shape in objective.draws.items()}
    value: Tensor = objective(
        torch.nn.Identity(),
        Batch(logits, y, order, order, u),
        Clock(torch.tensor(epoch), torch.tensor(0.1), 200),
    )
    return value


class TestClassBalanced:
    def test_divides_by_the_batch_size(self) -> None:
        logits, y = scores()
        objective = objective_of("class_balanced")
        weights: Any = objective.loss.weights
        losses = F.cross_entropy(logits.double(), y, reduction="none")
        wanted = sum(float(weights[y[i]]) * float(losses[i]) for i in range(30)) / 30
        assert minimised(objective, logits, y).item() == pytest.approx(wanted, rel=1e-6)
        assert minimised(objective, logits, y, 199).item() == pytest.approx(wanted, rel=1e-6)

    def test_divides_by_the_sum_of_the_weights_where_asked(self) -> None:
        logits, y = scores()
        objective = objective_of("class_balanced", reduction="weighted_mean")
        assert objective.weight is not None
        weighted = F.cross_entropy(logits, y, weight=objective.weight.weights)
        for epoch in (0, 199):
            torch.testing.assert_close(minimised(objective, logits, y, epoch), weighted)

    def test_beta_zero_is_cross_entropy(self) -> None:
        logits, y = scores()
        found = minimised(objective_of("class_balanced", beta=0.0), logits, y)
        torch.testing.assert_close(found, F.cross_entropy(logits, y))

    @pytest.mark.parametrize(("form", "gamma"), [("sigmoid", 0.0), ("focal", 1.0)])
    def test_forms(self, form: str, gamma: float) -> None:
        logits, y = scores()
        found = minimised(objective_of("class_balanced", beta=0.0, form=form), logits, y)
        torch.testing.assert_close(found, Focal(gamma, form="sigmoid")(logits, y))

    def test_deferred_weights_are_normalised_by_their_sum(self) -> None:
        logits, y = scores()
        objective = objective_of("class_balanced", drw=True)
        assert objective.weight is not None
        torch.testing.assert_close(minimised(objective, logits, y, 159), F.cross_entropy(logits, y))
        weighted = F.cross_entropy(logits, y, weight=objective.weight.weights)
        torch.testing.assert_close(minimised(objective, logits, y, 160), weighted)

    def test_nothing_to_defer(self) -> None:
        with pytest.raises(ConfigError, match="it weights all classes alike, so there is nothing to defer"):
            make_method("class_balanced", problem(), {"beta": 0, "drw": True})

    def test_a_focus_without_the_focal_form(self) -> None:
        with pytest.raises(ConfigError, match=r"gamma = 2.0 received with form = 'softmax'"):
            make_method("class_balanced", problem(), {"gamma": 2})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("erm", {}),
        ("focal", {}),
        ("focal", {"form": "sigmoid"}),
        ("ldam", {}),
        ("cdt", {}),
        ("seql", {}),
        ("label_aware_smoothing", {}),
    ],
)
def test_drw_is_the_weighted_mean_from_four_fifths_on(name: str, options: dict[str, Any]) -> None:
    logits, y = scores()
    plain, drw = objective_of(name, **options), objective_of(name, drw=True, **options)
    assert plain.weight is None
    assert drw.weight is not None
    torch.testing.assert_close(minimised(drw, logits, y, 159), minimised(plain, logits, y, 159))
    own = drw.weight.weights[y].double()
    uniforms = (torch.rand(30, 10, generator=torch.Generator().manual_seed(5)),) if drw.draws else ()
    wanted = (own * drw.loss(logits, y, *uniforms).double()).sum() / own.sum()
    torch.testing.assert_close(minimised(drw, logits, y, 160).double(), wanted, rtol=1e-6, atol=1e-7)
    assert minimised(drw, logits, y, 160).item() != pytest.approx(minimised(plain, logits, y).item())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("focal", {"gamma": 0}),
        ("cdt", {"gamma": 0}),
        ("seql", {"gamma": 0}),
        ("seql", {"lam": 0}),
        ("logit_adjustment", {"tau": 0}),
        ("vs", {"gamma": 0, "tau": 0}),
        ("label_aware_smoothing", {"head": 0, "tail": 0}),
    ],
)
def test_limits_are_erm(name: str, options: dict[str, Any]) -> None:
    logits, y = scores()
    found = minimised(objective_of(name, **options), logits, y)
    assert torch.equal(found, minimised(objective_of("erm"), logits, y))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("vs", {"tau": 0}), ("cdt", {})),
        (("vs", {"gamma": 0, "tau": 1}), ("logit_adjustment", {})),
        (("logit_adjustment", {}), ("balanced_softmax", {})),
    ],
)
def test_methods_within_others(first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]]) -> None:
    found = [minimised(objective_of(name, **options), *scores()) for name, options in (first, second)]
    assert torch.equal(found[0], found[1])


class TestSEQL:
    def test_it_is_handed_the_numbers_of_the_plan(self) -> None:
        logits, y = scores()
        objective = objective_of("seql")
        assert dict(objective.draws) == {"seql": (10,)}
        uniforms = torch.rand(30, 10, generator=torch.Generator().manual_seed(5))
        wanted = SEQL(C10_LONG_TAILED)(logits, y, uniforms)
        assert torch.equal(minimised(objective, logits, y), wanted)
        assert not torch.equal(wanted, F.cross_entropy(logits, y))


class TestDefaults:
    @pytest.mark.parametrize(
        ("name", "source", "wanted"),
        [
            ("cdt", "cifar10", CDT(C10_LONG_TAILED, 0.2)),
            ("cdt", "inaturalist18", CDT(C10_LONG_TAILED, 0.1)),
            ("ldam", "cifar100", LDAM(C10_LONG_TAILED, 0.5, 30)),
            ("ldam", "inaturalist18", LDAM(C10_LONG_TAILED, 0.3, 30)),
            ("seql", "cifar10", SEQL(C10_LONG_TAILED, 0.9, 0.05)),
            ("seql", "imagenet-lt", SEQL(C10_LONG_TAILED, 0.9, 4.3e-4)),
            ("vs", "cifar10", VS(C10_LONG_TAILED, 0.2, 1.2)),
            ("logit_adjustment", "cifar100", LogitAdjusted(C10_LONG_TAILED, 1.0)),
            ("label_aware_smoothing", "cifar10", LabelAwareSmoothing(C10_LONG_TAILED, 0.3, 0.0)),
            ("label_aware_smoothing", "cifar100", LabelAwareSmoothing(C10_LONG_TAILED, 0.4, 0.1)),
            ("label_aware_smoothing", "digits", LabelAwareSmoothing(C10_LONG_TAILED, 0.3, 0.0)),
        ],
    )
    def test_by_data_set(self, name: str, source: str, wanted: torch.nn.Module) -> None:
        loss = objective_of(name, source).loss
        found, expected = dict(loss.named_buffers()), dict(wanted.named_buffers())
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in found)

    @pytest.mark.parametrize(("ratio", "head"), [(200, 0.3), (100, 0.3), (60, 0.2), (50, 0.2), (10, 0.1), (1, 0.1)])
    def test_smoothing_by_the_ratio(self, ratio: int, head: float) -> None:
        method = make_method("label_aware_smoothing", problem("cifar10", (ratio * 5, 5)))
        objective = method.stages[0].objective
        assert isinstance(objective, Classify)
        smoothing: Any = objective.loss.smoothing
        assert smoothing.max().item() == pytest.approx(head)

    def test_own_values_win(self) -> None:
        assert torch.equal(objective_of("cdt", gamma=0.35).loss.temperatures, CDT(C10_LONG_TAILED, 0.35).temperatures)
        smoothing = LabelAwareSmoothing(C10_LONG_TAILED, 0.25, 0.2).smoothing
        found = objective_of("label_aware_smoothing", "cifar100", head=0.25, tail=0.2)
        assert torch.equal(found.loss.smoothing, smoothing)
        assert not objective_of("seql", "imagenet-lt", lam=0.0).loss.rare.any()


class TestHeads:
    @pytest.mark.parametrize(
        ("name", "options", "head"),
        [
            ("focal", {}, None),
            ("focal", {"form": "sigmoid"}, SigmoidHead),
            ("class_balanced", {}, None),
            ("class_balanced", {"form": "sigmoid"}, SigmoidHead),
            ("class_balanced", {"form": "focal", "drw": True}, SigmoidHead),
            ("ldam", {}, CosineHead),
            ("cdt", {}, None),
        ],
    )
    def test_of_each_form(self, name: str, options: dict[str, Any], head: type | None) -> None:
        assert make_method(name, problem(), options).head is head

    @pytest.mark.parametrize("classes", [2, 10, 100])
    def test_sigmoid_heads_start_with_a_probability_of_one_in_c(self, classes: int) -> None:
        net = build_net("small", channels=1, classes=classes, seed=0, head=SigmoidHead)
        plain = build_net("small", channels=1, classes=classes, seed=0)
        bias: Any = net.head.bias
        torch.testing.assert_close(bias, torch.full((classes,), -math.log(classes - 1)))
        assert torch.sigmoid(bias[0]).item() == pytest.approx(1 / classes)
        assert list(net.state_dict()) == list(plain.state_dict())
        assert torch.equal(net.head.weight, plain.head.weight)  # type: ignore[arg-type]


class TestSchedules:
    @pytest.mark.parametrize(
        ("source", "epochs", "warm", "drops"),
        [("cifar10", 1241, 20, (604, 926, 1128)), ("cifar100", 1419, 22, (691, 1059, 1290))],
    )
    def test_logit_adjustment_as_published(
        self, source: str, epochs: int, warm: int, drops: tuple[int, int, int]
    ) -> None:
        recipe = recipe_for(source).changed(make_method("logit_adjustment", problem(source)).own)
        rates = lr_table(recipe, recipe.epochs)
        assert (len(rates), recipe.nesterov) == (epochs, True)
        assert rates[warm - 2] < rates[warm - 1] == pytest.approx(0.1)
        for number, drop in enumerate(drops):
            assert rates[drop - 1] == pytest.approx(0.1 * 0.1**number)
            assert rates[drop] == pytest.approx(0.01 * 0.1**number)

    @pytest.mark.parametrize(
        ("name", "source", "epochs", "rates"),
        [
            ("focal", "cifar10", 200, {159: 0.1, 160: 1e-3, 180: 1e-5}),
            ("cdt", "cifar10", 200, {159: 0.1, 160: 1e-3, 180: 1e-5}),
            ("label_aware_smoothing", "cifar10", 200, {159: 0.1, 160: 0.01, 180: 1e-3}),
            ("mixup", "cifar10", 400, {319: 0.1, 320: 1e-3, 360: 1e-5}),
            ("manifold_mixup", "cifar100", 400, {319: 0.1, 320: 1e-3, 360: 1e-5}),
            ("remix", "cifar10", 200, {159: 0.1, 160: 1e-3, 180: 1e-5}),
            ("remix", "cifar100", 300, {149: 0.1, 150: 0.01, 249: 0.01, 250: 1e-3}),
            ("mamix", "cifar100", 300, {149: 0.1, 150: 0.01, 249: 0.01, 250: 1e-3}),
        ],
    )
    def test_of_the_publications(self, name: str, source: str, epochs: int, rates: dict[int, float]) -> None:
        recipe = recipe_for(source).changed(make_method(name, problem(source)).own)
        found = lr_table(recipe, recipe.epochs)
        assert len(found) == epochs
        assert {epoch: found[epoch] for epoch in rates} == pytest.approx(rates)

    def test_remix_on_inaturalist(self) -> None:
        assert make_method("remix", problem("inaturalist18")).own["batch_size"] == 256

    def test_the_paper_changes_nothing_but_for_mfw(self) -> None:
        for name in ("focal", "cdt", "mixup", "remix", "logit_adjustment"):
            assert make_method(name, problem("cifar10")).paper == {}
