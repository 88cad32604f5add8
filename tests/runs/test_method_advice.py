"""The advice follows the table of measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import pytest

from procrustean.data import long_tailed_counts, step_counts
from procrustean.methods import METHODS
from procrustean.methods.make import option_defaults
from procrustean.runs import method_advice as methods
from procrustean.runs.method_advice import (
    COMPARED,
    CORRECTION,
    GAIN,
    GAIN_ERROR,
    MethodChoice,
    advised,
    measured,
    nearest,
)

PROJECT = Path(__file__).resolve().parents[2]

LONG_TAILED, STEP = "CIFAR-10, long-tailed, ratio 100", "CIFAR-10, step, ratio 100"
FEW_LONG_TAILED, FEW_STEP = "digits, long-tailed, ratio 20", "digits, step, ratio 20"


def test_every_measured_method_exists() -> None:
    for row in measured():
        assert row.method in METHODS
        assert not row.drw or "drw" in option_defaults(row.method)


@pytest.mark.parametrize(
    ("counts", "setting"),
    [
        (long_tailed_counts(5000, 10, 100), LONG_TAILED),
        (step_counts(5000, 10, 100), STEP),
        ([2381, 214, 209], STEP),
        ([90, 100, 6, 5], FEW_STEP),
        ([150, 60, 25, 10], FEW_LONG_TAILED),
        ([7000, 3000, 1200, 600, 250, 100], LONG_TAILED),
        (long_tailed_counts(5000, 10, 200), LONG_TAILED),  # four methods were compared at ratio 200
    ],
)
def test_the_nearest_setting(counts: list[int], setting: str) -> None:
    assert nearest(counts).name == setting


def test_the_advice_is_the_best_of_the_nearest_setting_with_its_doubts() -> None:
    found = advised(step_counts(5000, 10, 100))
    assert found.choice == MethodChoice("mfw", True)
    assert "78.4 ± 1.2 % against 61.4 ± 0.5 % of plain training, 3 seeds" in found.why
    assert "Not told apart from it: mixup-drw, remix-drw. More:" in found.why
    assert advised([90, 100, 6, 5]).choice == MethodChoice("ldam", True)


def test_a_nearer_setting_with_few_methods_does_not_advise() -> None:
    found = advised(step_counts(5000, 10, 200))
    assert found.choice == MethodChoice("mfw", True)
    assert "on CIFAR-10, step, ratio 100, which is like these counts (5000 to 50 images per class): 78.4" in found.why


def test_a_method_that_was_beaten_in_a_nearer_setting_is_not_advised() -> None:
    assert nearest(step_counts(5000, 10, 10), least_compared=1).name == "CIFAR-10, step, ratio 10"
    found = advised(step_counts(5000, 10, 10))
    assert found.choice == MethodChoice("ldam", True)
    assert found.why == (
        "best of 4 methods measured with three seeds or more on CIFAR-10, step, ratio 10, which is like these counts "
        "(5000 to 500 images per class): 87.7 ± 0.2 % against 84.6 ± 0.3 % of plain training, 3 seeds. Not told apart "
        "from it: mfw. More: docs/which-method.md"
    )


def test_a_new_measurement_changes_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in measured() if row.setting.name == STEP)
    better = replace(row, method="focal", drw=True, mean=99.0)
    monkeypatch.setattr(methods, "measured", lambda: (*measured(), better))
    assert advised([5000, 5000, 50, 50]).choice == MethodChoice("focal", True)
    assert "not told apart" not in advised([5000, 5000, 50, 50]).why


def test_near_equal_classes_need_no_correction() -> None:
    found = advised([500, 400, 300])
    assert found.choice == MethodChoice("erm", False)
    assert "near equal" in found.why


def test_the_correction_of_own_images_is_what_was_measured() -> None:
    rows = json.loads((PROJECT / "results/corrections.json").read_text())["rows"]
    found = {(r["method"], r["drw"], r["set"], r["seed"]): 100 * r["held_out_balanced_accuracy"] for r in rows}

    def gains(choice: MethodChoice) -> list[float]:
        return [
            value - found["erm", False, name, seed]
            for (method, drw, name, seed), value in found.items()
            if (method, drw) == (choice.method, choice.drw)
        ]

    assert mean(gains(CORRECTION)) == pytest.approx(GAIN, abs=0.05)
    assert stdev(gains(CORRECTION)) / sqrt(len(gains(CORRECTION))) == pytest.approx(GAIN_ERROR, abs=0.05)
    # Another that gains more on the mean does not do so by two standard errors, and loses somewhere.
    for other in set(COMPARED) - {CORRECTION, MethodChoice("erm", False)}:
        more = [theirs - ours for theirs, ours in zip(gains(other), gains(CORRECTION), strict=True)]
        assert mean(more) < 2 * stdev(more) / sqrt(len(more))


def test_plain_training_is_compared() -> None:
    assert MethodChoice("erm", False) in COMPARED
    assert len(set(COMPARED)) == len(COMPARED)
