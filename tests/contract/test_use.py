"""What comes after training: adjusted, calibrated, exported, loaded again, by what a method's losses state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean import adjust, export, load_model
from procrustean.balance import LDAM, Classify, Focal, Loss, scale_of_scores, shifts_scores
from procrustean.base import ConfigError
from procrustean.deploy import GRID
from procrustean.engine import scores_of
from procrustean.methods import METHODS, Method, Stage, check_scale, make_method
from procrustean.runs import FinishedRun, evaluate, fit, load_run

from .test_methods import LABELS, PROBLEM, Case, case_name, cases

#: The classifier gives cosines, which the loss multiplies.
COSINES = '''
"""Cross-entropy of cosines, multiplied."""

import torch.nn.functional as F

from procrustean.balance import Loss
from procrustean.methods import Method, Stage
from procrustean.nets import CosineHead as Cosines
from procrustean.balance import Classify


class Head(Cosines):
    """A head that the library does not know."""


class ScaledLoss(Loss):
    """Cross-entropy of the scores times `scale`."""

    scale = 16.0

    def __init__(self):
        super().__init__(reduction="none")

    def per_sample(self, logits, labels):
        return F.cross_entropy(self.scale * logits, labels, reduction="none")


def cosines(problem):
    """Cosines."""
    return Method(stages=(Stage(Classify(loss=ScaledLoss())),), label="Cosines", head=Head)
'''


def losses() -> Iterator[tuple[str, Loss]]:
    """The losses in the last stages of all methods."""
    for case in cases():
        for module in make_method(case[0], PROBLEM, case[1]).stages[-1].objective.modules():
            if isinstance(module, Loss):
                yield case_name(case), module


every_loss = pytest.mark.parametrize("loss", [pytest.param(loss, id=name) for name, loss in losses()])
every_method = pytest.mark.parametrize("name", METHODS)


def slope(loss: Loss, scores: Tensor) -> Tensor:
    """The gradient of the summed loss of all training images in their scores."""
    scores.requires_grad_()
    uniforms = [torch.full((len(LABELS), *shape), 0.5) for shape in loss.draws.values()]
    return torch.autograd.grad(loss(scores, LABELS, *uniforms).sum() * _samples(loss), scores)[0]


def _samples(loss: Loss) -> int:
    return len(LABELS) if loss.reduction == "mean" else 1


@every_loss
def test_a_loss_multiplies_the_scores_by_what_it_states(loss: Loss) -> None:
    """Far from right, the loss falls by the scale for each point that the label's score gains."""
    own = torch.nn.functional.one_hot(LABELS, 4)
    lost = -(slope(loss, -40.0 * own) * own).sum(1)
    assert loss.scale / 2 < lost.mean().item() < 2 * loss.scale


@every_loss
def test_a_loss_that_states_no_correction_raises_the_scores_of_large_classes(loss: Loss) -> None:
    """Where all scores are equal, one that corrects for the class sizes has no reason to."""
    by_class = slope(loss, torch.zeros(len(LABELS), 4)).sum(0) / (loss.scale * len(LABELS))
    raised = -(by_class[0] - by_class.mean()).item()
    by_cross_entropy = (LABELS == 0).float().mean().item() - 1 / 4
    assert (raised > 0.6 * by_cross_entropy) == (not loss.shifts_scores and not loss.weights_classes)


@pytest.mark.parametrize("case", list(cases()), ids=case_name)
def test_no_method_contradicts_what_its_loss_states(case: Case) -> None:
    check_scale(make_method(case[0], PROBLEM, case[1]), 4, case[0])


class Of(Loss):
    """A loss of somebody's, who may or may not state what it multiplies."""

    def __init__(self, formula: Callable[[Tensor, Tensor], Tensor], scale: float = 1.0) -> None:
        super().__init__(reduction="none")
        self.per_sample, self.scale = formula, scale


def of_ones_own(loss: Loss, classes: int = 3) -> None:
    check_scale(Method(stages=(Stage(Classify(loss=loss)),), label="Mine"), classes, "mine.py:mine")


def entropy(scores: Tensor, labels: Tensor, **settings: float) -> Tensor:
    return F.cross_entropy(scores, labels, reduction="none", **settings)  # type: ignore[arg-type]


def right(scores: Tensor, labels: Tensor) -> Tensor:
    """The probability of each label."""
    return (-entropy(scores, labels)).exp()


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize(
    "loss",
    [
        Of(lambda z, y: entropy(z, y) * 100 / (1 + y)),  # weights of its own
        Of(lambda z, y: entropy(16 * z, y) / (1 + y), scale=16),
        Of(lambda z, y: entropy(z, y, label_smoothing=0.3)),
        Of(lambda z, y: 1 - right(z, y)),  # mean absolute error
        Of(lambda z, y: (z - F.one_hot(y, z.shape[1])).square().sum(1)),
        Of(lambda z, y: F.softplus(-20 * (z[range(len(y)), y] - 0.3)) / 20, scale=1),  # knows no other class
        Of(lambda z, y: z @ y),  # fails
        Focal(5.0, reduction="none"),
    ],
)
def test_losses_that_state_what_they_do(loss: Loss, classes: int) -> None:
    of_ones_own(loss, classes)


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize(
    ("loss", "stated"),
    [
        (Of(lambda z, y: entropy(16 * z, y)), "1"),
        (Of(lambda z, y: entropy(100 * z, y), scale=16), "16"),
        (Of(entropy, scale=16), "16"),
    ],
)
def test_losses_that_contradict_what_they_state(loss: Loss, stated: str, classes: int) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.py:mine: the loss Of .* by about \d+ before.* scale = {stated}, by"):
        of_ones_own(loss, classes)


def test_scales_that_differ() -> None:
    both = Classify(loss=LDAM([9, 3], scale=16, reduction="none"), weight=LDAM([9, 3], scale=30))
    with pytest.raises(ConfigError, match="parts that state the scales 16 and 30 received"):
        scale_of_scores(both)


def test_a_run_by_a_loss_that_contradicts_what_it_states_is_refused(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(COSINES.replace("scale", "factor"))
    with pytest.raises(ConfigError, match=r"silent\.py:cosines: the loss ScaledLoss .* by about 16 .* scale = 1, by"):
        fit("digits", method=f"{tmp_path / 'silent.py'}:cosines", device="cpu", run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@every_method
def test_a_run_is_calibrated_exported_and_loaded(name: str, wholes: dict[str, FinishedRun], tmp_path: Path) -> None:
    run = wholes[name]
    exported = load_model(export(run.path, output=tmp_path / "exported").folder, device="cpu")
    prepared, net = load_run(run.path)
    expected, _ = scores_of(prepared, net, prepared.data.test)
    images = prepared.data.test.images
    assert exported.scores(images) == pytest.approx(expected, abs=1e-4)
    probabilities = load_model(run.path, device="cpu").probabilities(images)
    np.testing.assert_allclose(exported.probabilities(images), probabilities, atol=1e-6)
    kept = run.record.calibration
    assert exported.spec.calibration.scale == pytest.approx(1 / kept.temperature)
    assert kept.test["log_loss"] < kept.test["log_loss_before"] + 0.1


@every_method
def test_a_run_is_adjusted_by_what_its_loss_states(name: str, wholes: dict[str, FinishedRun]) -> None:
    run, objective = wholes[name], make_method(name, PROBLEM).stages[-1].objective
    if shifts_scores(objective):
        with pytest.raises(ConfigError, match="corrects for the class sizes already"):
            adjust(run.path)
        return
    found = adjust(run.path)
    assert found.tau in [tau / scale_of_scores(objective) for tau in GRID]
    assert found.unadjusted == evaluate(run.path)


def test_a_loss_of_ones_own_on_cosines_is_adjusted_and_calibrated_by_its_scale(tmp_path: Path) -> None:
    (tmp_path / "cosines.py").write_text(COSINES)
    method = f"{tmp_path / 'cosines.py'}:cosines"
    run = fit("digits", imbalance="step", rho=20, epochs=10, device="cpu", method=method, run_dir=tmp_path / "run")
    found = adjust(run.path)
    assert found.tau == 1 / 16
    assert found.adjusted.balanced_accuracy > found.unadjusted.balanced_accuracy
    exported = load_model(export(run.path, output=tmp_path / "exported").folder, device="cpu")
    assert exported.spec.calibration.scale == 16
