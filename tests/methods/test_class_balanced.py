"""The class-balanced loss; tests/balance/test_losses.py has what it shares with the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from procrustean.balance import CrossEntropy, Focal, Loss
from procrustean.base import ConfigError
from procrustean.methods import ClassBalanced

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
COUNTS = (400, 90, 20, 4)
UNIFORMS = torch.rand(9, 4, generator=torch.Generator().manual_seed(7))


def scores(size: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, 4, generator=generator), torch.randint(4, (size,), generator=generator)


@pytest.mark.parametrize(("beta", "first", "last"), [(0.9999, 0.05061, 3.99272), (0.999, 0.18119, 3.68832)])
def test_weights(beta: float, first: float, last: float) -> None:
    weights = ClassBalanced(C10_LONG_TAILED, beta).weights
    assert weights[0].item() == pytest.approx(first, abs=5.1e-6)
    assert weights[-1].item() == pytest.approx(last, abs=5.1e-6)


@pytest.mark.parametrize(
    ("form", "parent"),
    [
        ("softmax", CrossEntropy()),
        ("sigmoid", Focal(0.0, form="sigmoid")),
        ("focal", Focal(1.0, form="sigmoid")),
    ],
)
def test_beta_zero_is_the_loss_under_the_weights(form: Any, parent: Loss) -> None:
    assert torch.equal(ClassBalanced(COUNTS, 0.0, form=form)(*scores()), parent(*scores()))


def test_a_focus_of_zero_is_the_sigmoid_form() -> None:
    found = ClassBalanced(COUNTS, form="focal", gamma=0.0)(*scores())
    assert torch.equal(found, ClassBalanced(COUNTS, form="sigmoid")(*scores()))


@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
def test_only_the_focal_form_has_a_focus(form: Any) -> None:
    with pytest.raises(ConfigError, match="only form 'focal' has a focus"):
        ClassBalanced(COUNTS, form=form, gamma=1.0)


def test_unknown_form_and_beta() -> None:
    with pytest.raises(ConfigError, match="form = 'hinge' received; accepted: 'softmax', 'sigmoid', 'focal'"):
        ClassBalanced(COUNTS, form="hinge")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="effective numbers need 0 <= beta < 1"):
        ClassBalanced(COUNTS, 1.0)
