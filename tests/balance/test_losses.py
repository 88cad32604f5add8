"""Losses against slow references in float64, those of single methods too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean.balance import (
    CDT,
    LDAM,
    VS,
    BalancedSoftmax,
    CrossEntropy,
    Focal,
    LabelAwareSmoothing,
    LogitAdjusted,
    Loss,
)
from procrustean.base import ConfigError, DataError
from procrustean.methods import SEQL, ClassBalanced

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
COUNTS = (400, 90, 20, 4)
ROWS = 9
UNIFORMS = torch.rand(ROWS, 4, generator=torch.Generator().manual_seed(7))
Reference = Callable[[Tensor, int, int], Tensor]  # scores, label, row of the batch


def scores(size: int = ROWS, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, generator=generator)
    return logits, torch.randint(classes, (size,), generator=generator)


def constants(loss: nn.Module) -> dict[str, Tensor]:
    """What a loss holds for each class; of one that weights another, of both."""
    return {
        f"{path}.{name}": getattr(module, name)
        for path, module in loss.named_modules()
        if isinstance(module, Loss)
        for name in module._constants
    }


def cross_entropy_of(change: Callable[[Tensor, int, int], Tensor]) -> Reference:
    """Cross-entropy, in the words of its definition, of each score after a change."""

    def loss(row: Tensor, label: int, index: int) -> Tensor:
        changed = torch.stack([change(row[c], c, label) for c in range(len(row))])
        return -(changed[label].exp() / changed.exp().sum()).log()

    return loss


def focal_of(gamma: float) -> Reference:
    def loss(row: Tensor, label: int, index: int) -> Tensor:
        p = row.exp()[label] / row.exp().sum()
        return (1 - p) ** gamma * -p.log()

    return loss


def sigmoid_focal_of(gamma: float) -> Reference:
    def loss(row: Tensor, label: int, index: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for c in range(len(row)):
            p = 1 / (1 + torch.exp(-row[c]))
            q = p if c == label else 1 - p
            total = total + (1 - q) ** gamma * -q.log()
        return total

    return loss


def weighted(reference: Reference, beta: float) -> Reference:
    raw = [(1 - beta) / (1 - beta**n) for n in COUNTS]

    def loss(row: Tensor, label: int, index: int) -> Tensor:
        return raw[label] * len(raw) / sum(raw) * reference(row, label, index)

    return loss


def seql_of(gamma: float, lam: float) -> Reference:
    def loss(row: Tensor, label: int, index: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for c in range(len(row)):
            dropped = UNIFORMS[index, c] < gamma and COUNTS[c] / sum(COUNTS) < lam and c != label
            total = total + (0.0 if dropped else 1.0) * row[c].exp()
        return -(row[label].exp() / total).log()

    return loss


def smoothed_of(head: float, tail: float) -> Reference:
    def loss(row: Tensor, label: int, index: int) -> Tensor:
        angle = math.pi * (COUNTS[label] - min(COUNTS)) / (2 * (max(COUNTS) - min(COUNTS)))
        smoothing = tail + (head - tail) * math.sin(angle)
        p = row.exp() / row.exp().sum()
        target = [(1 - smoothing) * (c == label) + smoothing / len(row) for c in range(len(row))]
        return torch.stack([-target[c] * p[c].log() for c in range(len(row))]).sum()

    return loss


class Case(NamedTuple):
    make: Callable[..., Loss]  # takes `reduction`
    reference: Reference

    def __call__(self, logits: Tensor, y: Tensor, reduction: str = "none") -> Tensor:
        loss = self.make(reduction=reduction)
        extra = (UNIFORMS[: len(logits)],) if loss.draws else ()
        value: Tensor = loss(logits, y, *extra)
        return value


def case(kind: Callable[..., Loss], *arguments: Any, reference: Reference, **options: Any) -> Case:
    return Case(lambda reduction: kind(*arguments, **options, reduction=reduction), reference)


RAREST, LARGEST, ALL = min(COUNTS), max(COUNTS), sum(COUNTS)
CASES = {
    "cross-entropy": case(CrossEntropy, reference=cross_entropy_of(lambda z, c, y: z)),
    "focal 0.5": case(Focal, 0.5, reference=focal_of(0.5)),
    "focal 1": case(Focal, reference=focal_of(1.0)),
    "focal 2": case(Focal, gamma=2.0, reference=focal_of(2.0)),
    "sigmoid focal 0.5": case(Focal, 0.5, form="sigmoid", reference=sigmoid_focal_of(0.5)),
    "sigmoid focal 2": case(Focal, 2.0, form="sigmoid", reference=sigmoid_focal_of(2.0)),
    "class-balanced": case(ClassBalanced, COUNTS, 0.99, reference=weighted(cross_entropy_of(lambda z, c, y: z), 0.99)),
    "class-balanced sigmoid": case(
        ClassBalanced, COUNTS, form="sigmoid", reference=weighted(sigmoid_focal_of(0.0), 0.9999)
    ),
    "class-balanced focal": case(
        ClassBalanced, COUNTS, form="focal", gamma=0.5, reference=weighted(sigmoid_focal_of(0.5), 0.9999)
    ),
    "ldam": case(
        LDAM,
        COUNTS,
        max_margin=0.3,
        scale=4,
        reference=cross_entropy_of(lambda z, c, y: 4 * (z - (c == y) * 0.3 * (RAREST / COUNTS[c]) ** 0.25)),
    ),
    "cdt": case(CDT, COUNTS, gamma=0.3, reference=cross_entropy_of(lambda z, c, y: z / (LARGEST / COUNTS[c]) ** 0.3)),
    "seql": case(SEQL, COUNTS, gamma=0.7, lam=0.2, reference=seql_of(0.7, 0.2)),
    "balanced softmax": case(
        BalancedSoftmax, COUNTS, reference=cross_entropy_of(lambda z, c, y: z + math.log(COUNTS[c]))
    ),
    "logit adjustment": case(
        LogitAdjusted, COUNTS, tau=1.5, reference=cross_entropy_of(lambda z, c, y: z + 1.5 * math.log(COUNTS[c] / ALL))
    ),
    "vs": case(
        VS,
        COUNTS,
        gamma=0.15,
        tau=1.25,
        reference=cross_entropy_of(
            lambda z, c, y: z / (LARGEST / COUNTS[c]) ** 0.15 + 1.25 * math.log(COUNTS[c] / ALL)
        ),
    ),
    "label-aware smoothing": case(LabelAwareSmoothing, COUNTS, head=0.4, tail=0.1, reference=smoothed_of(0.4, 0.1)),
}
every_loss = pytest.mark.parametrize("loss", CASES.values(), ids=list(CASES))


class TestEveryLoss:
    @every_loss
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_value_and_gradient(self, loss: Case, dtype: torch.dtype) -> None:
        logits, y = scores()
        logits = logits.to(dtype).requires_grad_()
        twin = logits.detach().double().requires_grad_()
        found = loss(logits, y)
        wanted = torch.stack([loss.reference(twin[i], int(y[i]), i) for i in range(len(y))])
        assert found.shape == (ROWS,)
        assert found.dtype == dtype
        # The tables of the classes are float32 in both.
        tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 5e-7, "atol": 1e-7}
        torch.testing.assert_close(found.double(), wanted, **tolerance)
        upstream = torch.linspace(0.5, 2.0, ROWS)
        found.backward(upstream.to(dtype))
        wanted.backward(upstream.double())
        assert logits.grad is not None
        torch.testing.assert_close(logits.grad.double(), twin.grad, rtol=2e-5, atol=2e-5)

    @every_loss
    def test_gradcheck(self, loss: Case) -> None:
        logits, y = scores(size=5)
        assert torch.autograd.gradcheck(lambda z: loss(z, y), (logits.double().requires_grad_(),))

    @every_loss
    def test_the_mean_divides_by_the_batch_size(self, loss: Case) -> None:
        logits, y = scores()
        each, mean = loss(logits, y), loss(logits, y, reduction="mean")
        assert mean.shape == ()
        assert mean.item() == pytest.approx(sum(each.tolist()) / ROWS, rel=1e-6)
        assert loss.make(reduction="mean").reduction == "mean"

    @every_loss
    @pytest.mark.parametrize("size", [1e4, 30.0])
    def test_far_out_scores_stay_finite(self, loss: Case, size: float) -> None:
        logits = size * torch.tensor([[1.0, -1.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
        for y in (torch.tensor([0, 0, 0]), torch.tensor([1, 1, 3])):
            twin = logits.clone().requires_grad_()
            losses = loss(twin, y)
            losses.sum().backward()
            assert twin.grad is not None
            assert bool(losses.isfinite().all())
            assert bool(twin.grad.isfinite().all())

    @every_loss
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision_scores_are_computed_in_float32(self, loss: Case, dtype: torch.dtype) -> None:
        logits, y = scores()
        rounded = logits.to(dtype)
        with torch.autocast("cpu", torch.bfloat16):
            found = loss(rounded, y)
            assert torch.equal(loss(rounded.float(), y), found)
        assert found.dtype == torch.float32
        assert torch.equal(found, loss(rounded.float(), y))

    @every_loss
    def test_never_negative(self, loss: Case) -> None:
        for seed in range(40):
            logits, y = scores(seed=seed)
            assert bool((loss(20 * logits, y) >= 0).all())

    @every_loss
    def test_shifting_all_scores_alike_changes_nothing_under_a_softmax(self, loss: Case) -> None:
        made = loss.make(reduction="none")
        sigmoid = "sigmoid" in (getattr(made, "form", ""), getattr(getattr(made, "unweighted", None), "form", ""))
        tempered = getattr(made, "temperatures", torch.ones(1)).max() > 1
        logits, y = scores()
        same = torch.allclose(loss(logits + 3, y), loss(logits, y), rtol=1e-4, atol=1e-5)
        assert same != (sigmoid or bool(tempered))

    @every_loss
    def test_compiles_to_one_graph(self, loss: Case) -> None:
        logits, y = scores()
        made = loss.make(reduction="mean")
        extra = (UNIFORMS,) if made.draws else ()
        torch._dynamo.reset()
        compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(logits, y, *extra), made(logits, y, *extra))
        torch._dynamo.reset()

    @every_loss
    def test_no_keys_in_the_state_dict_yet_it_moves(self, loss: Case) -> None:
        made = loss.make(reduction="mean")
        assert list(made.state_dict()) == []
        assert all(held.is_meta for held in constants(made.to("meta")).values())
        assert (len(constants(made)) > 0) == (made.classes is not None)

    @every_loss
    def test_a_model_that_is_built_without_memory_and_filled_later(self, loss: Case) -> None:
        wanted = constants(loss.make(reduction="mean"))
        with torch.device("meta"):
            made = nn.Sequential(nn.Linear(3, 4), loss.make(reduction="mean"))
        found = constants(made.to_empty(device="cpu")[1])
        assert list(found) == list(wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)

    @every_loss
    def test_labels_of_any_integer_type(self, loss: Case) -> None:
        logits, y = scores()
        for dtype in (torch.uint8, torch.int32):
            assert torch.equal(loss(logits, y.to(dtype)), loss(logits, y))

    @every_loss
    def test_the_global_generator_is_left_alone(self, loss: Case) -> None:
        before = torch.get_rng_state()
        loss(*scores())
        assert torch.equal(torch.get_rng_state(), before)

    @every_loss
    def test_wrong_shapes_and_types(self, loss: Case) -> None:
        logits, y = scores()
        with pytest.raises(DataError, match=r"logits of shape \(9, 4\) and labels of shape \(8,\)"):
            loss(logits, y[:-1])
        with pytest.raises(DataError, match=r"logits of shape \(4,\)"):
            loss(logits[0], y[0])
        with pytest.raises(DataError, match=r"labels of type torch.float32 received; give class indices"):
            loss(logits, y.float())
        made = loss.make(reduction="none")
        if made.classes is not None:
            with pytest.raises(DataError, match="logits for 3 classes received by a loss made for 4"):
                loss(logits[:, :3], y.clamp(max=2))

    @every_loss
    def test_unknown_reduction(self, loss: Case) -> None:
        with pytest.raises(ConfigError, match="reduction = 'sum' received; accepted: 'mean', 'none'"):
            loss.make(reduction="sum")


@pytest.mark.parametrize(
    "made",
    [ClassBalanced, LDAM, CDT, SEQL, BalancedSoftmax, LogitAdjusted, VS, LabelAwareSmoothing],
)
class TestCounts:
    def test_classes_without_images(self, made: Callable[..., Loss]) -> None:
        with pytest.raises(DataError, match="have no images"):
            made((5, 0))

    def test_counts_as_arrays(self, made: Callable[..., Loss]) -> None:
        logits, y = scores()
        extra = (UNIFORMS,) if made is SEQL else ()
        wanted = made(COUNTS)(logits, y, *extra)
        assert torch.equal(made(np.array(COUNTS))(logits, y, *extra), wanted)
        assert torch.equal(made(torch.tensor(COUNTS))(logits, y, *extra), wanted)


def test_a_subclass_has_to_say_what_a_sample_costs() -> None:
    with pytest.raises(TypeError, match="Loss does not say what a sample costs"):
        Loss()(*scores())


class TestFocal:
    def test_gamma_zero_is_cross_entropy(self) -> None:
        logits, y = scores()
        assert torch.equal(Focal(0.0)(logits, y), F.cross_entropy(logits, y))
        answers = F.one_hot(y, 4).float()
        wanted = F.binary_cross_entropy_with_logits(logits, answers, reduction="none").sum(1)
        torch.testing.assert_close(Focal(0.0, form="sigmoid", reduction="none")(logits, y), wanted)

    @pytest.mark.parametrize("form", ["softmax", "sigmoid"])
    @pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
    def test_well_classified_samples_count_less(self, gamma: float, form: Any) -> None:
        logits, y = torch.tensor([[6.0, -6.0]]), torch.tensor([0])
        assert Focal(gamma, form=form)(logits, y) < 0.5 * Focal(0.0, form=form)(logits, y)

    @pytest.mark.parametrize("form", ["softmax", "sigmoid"])
    @pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 3.0])
    def test_gradient_of_a_certain_sample(self, gamma: float, form: Any) -> None:
        logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
        Focal(gamma, form=form)(logits, torch.tensor([0])).backward()
        assert logits.grad is not None
        assert logits.grad.abs().max() < 1e-6

    @pytest.mark.parametrize("gamma", [-0.5, math.nan, math.inf])
    def test_gamma_out_of_range(self, gamma: float) -> None:
        with pytest.raises(ConfigError, match="gamma = "):
            Focal(gamma)

    def test_unknown_form(self) -> None:
        with pytest.raises(ConfigError, match="form = 'probit' received; accepted: 'softmax', 'sigmoid'"):
            Focal(form="probit")  # type: ignore[arg-type]


class TestLDAM:
    def test_margins(self) -> None:
        wanted = [0.15811, 0.17970, 0.20424, 0.23209, 0.26383, 0.29977, 0.34068, 0.38722, 0.44050, 0.50000]
        np.testing.assert_allclose(LDAM(C10_LONG_TAILED).margins, wanted, atol=5.1e-6)

    def test_margin_zero_is_scaled_cross_entropy(self) -> None:
        logits, y = scores()
        torch.testing.assert_close(LDAM(COUNTS, max_margin=0.0)(logits, y), F.cross_entropy(30 * logits, y))

    def test_a_margin_makes_the_loss_larger(self) -> None:
        logits, y = scores()
        with_margin, without = (LDAM(COUNTS, m, 3.0, reduction="none")(logits, y) for m in (0.5, 0.0))
        assert bool((with_margin > without).all())

    @pytest.mark.parametrize(
        ("margin", "scale"), [(-0.1, 30.0), (0.5, 0.0), (math.nan, 1.0), (0.5, math.inf), (math.inf, 1.0)]
    )
    def test_settings_out_of_range(self, margin: float, scale: float) -> None:
        with pytest.raises(ConfigError, match="max_margin = "):
            LDAM(COUNTS, margin, scale)


class TestVectorScaling:
    @pytest.mark.parametrize(
        ("gamma", "wanted"),
        [
            (0.2, [1, 1.10779, 1.22725, 1.35941, 1.50620, 1.66821, 1.84798, 2.04735, 2.26975, 2.51189]),
            (0.3, [1, 1.16596, 1.35956, 1.58499, 1.84852, 2.15465, 2.51214, 2.92945, 3.41954, 3.98107]),
        ],
    )
    def test_temperatures(self, gamma: float, wanted: list[float]) -> None:
        np.testing.assert_allclose(CDT(C10_LONG_TAILED, gamma=gamma).temperatures, wanted, atol=5.1e-6)

    def test_log_priors(self) -> None:
        wanted = [-0.90874, -1.42057, -1.93262, -2.44400, -2.95669, -3.46751, -3.97920, -4.49146, -5.00709, -5.51391]
        np.testing.assert_allclose(LogitAdjusted(C10_LONG_TAILED).shifts, wanted, atol=5.1e-6)
        np.testing.assert_allclose(VS(C10_LONG_TAILED, tau=2.0).shifts, 2 * np.array(wanted), atol=1.1e-5)

    @pytest.mark.parametrize("parent", [CDT(COUNTS, gamma=0.0), LogitAdjusted(COUNTS, tau=0.0), VS(COUNTS, 0.0, 0.0)])
    def test_without_adjustment_it_is_cross_entropy(self, parent: Loss) -> None:
        assert torch.equal(parent(*scores()), CrossEntropy()(*scores()))

    def test_special_cases_of_vs(self) -> None:
        logits, y = scores()
        assert torch.equal(VS(COUNTS, gamma=0.3, tau=0.0)(logits, y), CDT(COUNTS, gamma=0.3)(logits, y))
        assert torch.equal(VS(COUNTS, gamma=0.0, tau=0.7)(logits, y), LogitAdjusted(COUNTS, tau=0.7)(logits, y))
        assert torch.equal(LogitAdjusted(COUNTS, tau=1.0)(logits, y), BalancedSoftmax(COUNTS)(logits, y))

    def test_equal_counts_change_nothing(self) -> None:
        logits, y = scores()
        torch.testing.assert_close(VS((7, 7, 7, 7), 0.5, 2.0)(logits, y), F.cross_entropy(logits, y))

    def test_the_prior_is_what_a_classifier_that_knows_nothing_should_say(self) -> None:
        # With all scores equal, the adjusted probability of a class is its share of the images.
        loss = LogitAdjusted(COUNTS, reduction="none")(torch.zeros(4, 4), torch.arange(4))
        torch.testing.assert_close((-loss).exp(), torch.tensor(COUNTS) / ALL)

    @pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
    def test_settings_out_of_range(self, value: float) -> None:
        with pytest.raises(ConfigError, match="gamma = "):
            CDT(COUNTS, gamma=value)
        with pytest.raises(ConfigError, match="tau = "):
            LogitAdjusted(COUNTS, tau=value)


class TestLabelAwareSmoothing:
    def test_smoothing_of_each_class(self) -> None:
        found = LabelAwareSmoothing(C10_LONG_TAILED, head=0.3, tail=0.0).smoothing
        assert found[0].item() == pytest.approx(0.3)
        assert found[-1].item() == 0.0
        assert found[1].item() == pytest.approx(0.3 * math.sin(math.pi / 2 * 2947 / 4950))
        assert bool((found.diff() < 0).all())

    def test_without_smoothing_it_is_cross_entropy(self) -> None:
        found = LabelAwareSmoothing(COUNTS, head=0.0, tail=0.0)(*scores())
        assert torch.equal(found, CrossEntropy()(*scores()))

    def test_the_same_for_all_is_label_smoothing(self) -> None:
        logits, y = scores()
        found = LabelAwareSmoothing(COUNTS, head=0.2, tail=0.2)(logits, y)
        torch.testing.assert_close(found, F.cross_entropy(logits, y, label_smoothing=0.2))

    def test_equal_counts_are_all_the_largest(self) -> None:
        assert LabelAwareSmoothing((7, 7, 7), head=0.25, tail=0.1).smoothing.tolist() == [0.25] * 3

    @pytest.mark.parametrize(("head", "tail"), [(0.1, 0.2), (1.0, 0.0), (0.3, -0.1), (math.nan, 0.0)])
    def test_settings_out_of_range(self, head: float, tail: float) -> None:
        with pytest.raises(ConfigError, match="need 0 <= tail <= head < 1"):
            LabelAwareSmoothing(COUNTS, head, tail)


@every_loss
@pytest.mark.parametrize("label", [-100, -1, 4])
def test_labels_that_name_no_class_are_refused(loss: Case, label: int) -> None:
    with pytest.raises(DataError, match="received, but there are 4 classes"):
        loss(torch.zeros(2, 4), torch.tensor([0, label]))
