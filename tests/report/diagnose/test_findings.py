from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from made_records import with_changes
from procrustean.base import RunError
from procrustean.base.json_files import typed_json
from procrustean.records import Curves, curves_of
from procrustean.records.class_curves import mean_curves
from procrustean.records.run_record import Result
from procrustean.report import Diagnosis
from procrustean.report.findings import (
    Finding,
    verdict,
)
from procrustean.runs.method_advice import advised

Make = Callable[..., Curves]


def by_topic(found: list[Finding]) -> dict[str, Finding]:
    return {finding.topic: finding for finding in found}


def suggestions(found: list[Finding]) -> list[str]:
    return [finding.text for finding in found if finding.topic == "suggestion"]


def late(*minor: tuple[float, ...]) -> np.ndarray:
    """Training accuracies: both major classes are fitted at once, the two minor ones as given, one row per epoch."""
    return np.array([(1.0, 0.9, *row) for row in minor])


def test_minor_classes_that_catch_up_late(curves: Make) -> None:
    train = late((0.0, 0.1), (0.2, 0.0), (0.9, 0.3), (0.9, 0.7), (1.0, 1.0))
    progress = by_topic(verdict(curves(train=train)))["progress"]
    # Behind is more than 20 points below the mean of the major classes, 95 %; epochs 10, 20, 40, 80, 100.
    assert progress.numbers["caught_up"] == {"class 2": 40, "class 3": 100}
    assert progress.numbers["still_behind"] == []
    assert progress.text == (
        "Training accuracy: of 2 minor classes 2 under-fitted at some time (more than 20 points below the major ones), "
        "0 after epoch 100. The gap is widest after epoch 10: 5.0 % against 95.0 %. The last to catch up have done so "
        "by epoch 100 of 100."
    )


def test_a_class_that_falls_back_has_not_caught_up_before(curves: Make) -> None:
    train = late((0.0, 0.9), (0.9, 0.9), (0.1, 0.9), (0.9, 0.9), (0.9, 0.9))
    progress = by_topic(verdict(curves(train=train)))["progress"]
    assert progress.numbers["caught_up"] == {"class 2": 80}
    assert "of 2 minor classes 1 under-fitted" in progress.text
    assert progress.text.endswith("by epoch 80 of 100.")


def test_classes_that_never_catch_up_are_named(curves: Make) -> None:
    train = late(*[(0.0, 0.0)] * 3, (0.9, 0.1), (1.0, 0.4))
    found = verdict(curves(train=train))
    progress = by_topic(found)["progress"]
    assert progress.numbers["still_behind"] == ["class 3"]
    assert "1 after epoch 100 ('class 3')." in progress.text
    (text,) = suggestions(found)
    assert text.startswith("Minor classes have not caught up by the end. Try --method ldam --drw, best of")


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("erm", {"drw": True}, "Try --method ldam --drw, best of"),
        ("ldam", {"drw": True}, "The method is the one advised for these counts: ldam --drw, best of"),
        ("balanced_softmax", {}, "Try --method ldam --drw, best of"),
    ],
)
def test_a_method_is_not_suggested_to_itself(curves: Make, method: str, options: dict[str, bool], said: str) -> None:
    train = late(*[(0.0, 0.0)] * 3, (0.9, 0.1), (1.0, 0.4))
    (text,) = suggestions(verdict(curves(train=train, test=[0.9, 0.9, 0.1, 0.1], method=method, options=options)))
    assert said in text


@pytest.mark.parametrize("counts", [[100, 100, 5, 5], [5000, 5000, 50, 50], [5000, 1000, 200, 50]])
def test_the_method_to_try_is_the_one_that_is_advised_for_the_counts(curves: Make, counts: list[int]) -> None:
    advice = advised(counts)
    train = late((0.0, 0.0), (0.1, 0.1), (0.9, 0.9), (0.9, 0.9), (0.9, 0.9))
    (found,) = (f for f in verdict(curves(train=train, deviation=0.1, counts=counts)) if f.topic == "suggestion")
    assert f"Try --method {advice.choice.method}{' --drw' * advice.choice.drw}, {advice.why}." in found.text
    assert found.numbers["tries"] == [advice.choice.method, advice.choice.drw]


def test_only_five_of_many_are_named(curves: Make) -> None:
    train = np.array([[1.0] * 4 + [0.0] * 8] * 5)
    progress = by_topic(verdict(curves(train=train, counts=[100] * 4 + [5] * 8)))["progress"]
    assert "8 after epoch 100 ('class 4', 'class 5', 'class 6', 'class 7', 'class 8', ...)." in progress.text


def test_equal_progress_is_said_to_be_so(curves: Make) -> None:
    found = verdict(curves(train=0.97, test=0.95, deviation=0.1))
    progress = by_topic(found)["progress"]
    assert progress.numbers["under_fitted"] == 0
    assert progress.text.startswith("Training accuracy: of 2 minor classes 0 under-fitted")
    assert "caught up" not in progress.text
    assert suggestions(found) == [
        "Nothing stands out that more epochs, another method or alpha would be expected to mend."
    ]


def test_balanced_counts_have_no_minor_classes(curves: Make) -> None:
    (only,) = verdict(curves(counts=[50, 50, 50]))
    assert only.text == "All 3 classes have about 50 images: nothing is minor here."


def test_the_ratio_of_the_extremes(curves: Make) -> None:
    ratio = np.array([[1.3, 1.0, 0.5, 0.02]] + [[1.1, 1.0, 0.9, 0.5]] * 3 + [[1.0, 1.0, 1.0, 0.8]])
    found = by_topic(verdict(curves(ratio=ratio)))["ratio"]
    assert found.text == (
        "Classification ratio (100 % is balanced) after epochs 10 and 100: 'class 0' (100 images) 130.0 % and 100.0 %, "
        "'class 3' (5 images) 2.0 % and 80.0 %."
    )
    assert found.numbers["smallest_then"] == 0.02
    once = by_topic(verdict(curves(ratio=ratio[-1], at=(100,))))["ratio"]
    assert once.text.endswith("after epoch 100: 'class 0' (100 images) 100.0 %, 'class 3' (5 images) 80.0 %.")


def test_the_pull_of_the_loss(curves: Make) -> None:
    gradient = np.array(
        [[0.2, 0.2, 1, 1], [0.1, 0.1, 2, 2], [0.1, 0.1, 1, 1], [0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.4, 0.4]]
    )
    found = by_topic(verdict(curves(gradient=gradient)))["gradients"]
    assert found.numbers["epoch"] == 20
    assert found.numbers["ratio_then"] == pytest.approx(20)
    assert found.numbers["ratio_last"] == pytest.approx(4)
    assert found.text == (
        "Length of the loss gradient at group2 (epochs 10 to 100), longest after epoch 20: minor classes 2, major ones "
        "0.1, a ratio of 20.0; after epoch 100 it is 4.0."
    )
    mixed = by_topic(verdict(curves(gradient=gradient, mixed=np.array([0.5, 0.5, 1, 1]))))["gradients"]
    assert mixed.numbers["epoch"] == 10  # the peak of the gradients that training has
    assert mixed.numbers["ratio_then"] == pytest.approx(2)
    assert mixed.text.endswith("Without the mixing the same weights would give 5.0.")


def two_stages(**more: Any) -> dict[str, Any]:
    """A stage that mixes at the input, with long gradients, and one that mixes nothing and is measured at group2."""
    gradient = np.array([[0.5, 0.5, 4, 4]] * 3 + [[0.1, 0.1, 0.2, 0.2], [0.1, 0.1, 0.3, 0.3]])
    mixed = np.array([[1, 1, 2, 2], [1, 1, 3, 3], [1, 1, 2, 2], [np.nan] * 4, [np.nan] * 4])
    return {"gradient": gradient, "mixed": mixed, "layers": ("input",) * 3 + ("group2",) * 2, **more}


def test_gradients_are_those_of_the_layer_that_is_named(curves: Make) -> None:
    at_input, at_group = (f for f in verdict(curves(**two_stages())) if f.topic == "gradients")
    assert at_input.numbers["layer"] == "input"
    assert at_input.numbers["epochs"] == [10, 20, 40]
    assert at_input.text == (
        "Length of the loss gradient at input (epochs 10 to 40), longest after epoch 20: minor classes 3, major ones "
        "1, a ratio of 3.0; after epoch 40 it is 2.0. Without the mixing the same weights would give 8.0."
    )
    assert at_group.text == (
        "Length of the loss gradient at group2 (epochs 80 to 100), longest after epoch 100: minor classes 0.3, major "
        "ones 0.1, a ratio of 3.0; after epoch 100 it is 3.0."
    )


def test_gradients_are_mixed_in_the_epochs_that_mix(curves: Make) -> None:
    made = curves(**two_stages(layers=()))
    assert made.mixes.tolist() == [True, True, True, False, False]
    assert made.gradient_norm_trained[:, 2].tolist() == [2, 3, 2, 0.2, 0.3]
    (found,) = (finding for finding in verdict(made) if finding.topic == "gradients")
    assert found.numbers["ratio_then"] == pytest.approx(3)
    assert found.text.endswith("after epoch 100 it is 3.0. Without the mixing the same weights would give 8.0.")
    made = curves(**two_stages(layers=(), gradient=np.array([1.0, 1, 9, 9])))
    (found,) = (finding for finding in verdict(made) if finding.topic == "gradients")
    assert found.numbers["epoch"] == 80  # nothing is mixed there
    assert "Without the mixing" not in found.text
    assert made.until(20).mixes.tolist() == [True, True]


def test_the_mean_of_runs_has_the_layers_of_their_common_epochs(curves: Make) -> None:
    last = {"gradient": np.array([0.1, 0.1, 0.5, 0.5]), "at": (100,), "layers": ("group2",)}
    mean = mean_curves([curves(**two_stages()), curves(**last)])
    assert mean.at == (100,)
    assert mean.layers == ("group2",)
    assert mean.gradient_norm_trained.tolist() == [[0.1, 0.1, 0.4, 0.4]]
    mean = mean_curves([curves(**two_stages()), curves(**two_stages())])
    assert mean.layers == ("input", "input", "input", "group2", "group2")
    assert mean.mixes.tolist() == [True, True, True, False, False]


def test_how_far_features_drift_and_what_it_suggests(curves: Make) -> None:
    deviation = np.array([[0.1, 0.1, 0.15, 0.15]] * 4 + [[0.2, 0.2, 0.5, 0.7]])
    found = verdict(curves(train=0.99, deviation=deviation))
    drift = by_topic(found)["deviation"]
    assert drift.numbers["ratio"] == pytest.approx(3.0)
    assert drift.text == (
        "Distance between training and test features (of unit length) after epochs 10 and 100: minor classes 0.15 and "
        "0.60, major ones 0.10 and 0.20: 3.0 times as far."
    )
    (text,) = suggestions(found)
    assert text.startswith(
        "Test features of the minor classes drift 3.0 times as far as those of the major ones. Try --method ldam"
    )
    other, weakened = suggestions(
        verdict(curves(train=0.99, deviation=deviation, method="mfw", options={"alpha": 1.0}))
    )
    assert other == text
    assert "larger alpha (now 1)" in weakened


def test_fitting_late_suggests_another_method(curves: Make) -> None:
    train = late((0.0, 0.0), (0.1, 0.1), (0.9, 0.9), (0.9, 0.9), (0.9, 0.9))
    for method in ("erm", "mfw"):
        (text,) = suggestions(verdict(curves(train=train, deviation=0.1, method=method)))
        assert text.startswith("The minor classes need 40 % of the training to catch up. Try --method ldam --drw, ")


def test_major_classes_that_are_not_fitted_need_epochs_or_less_weakening(curves: Make) -> None:
    train = np.array([[0.5, 0.5, 0.5, 0.5]] * 5)
    plain, weakened = (suggestions(verdict(curves(train=train, test=0.5, method=m))) for m in ("erm", "mfw"))
    assert "end at 50.0 % training accuracy: try more epochs than 100." in plain[0]
    assert "or a smaller alpha (now the default)" in weakened[0]


def test_undefined_values_do_not_spread(curves: Make) -> None:
    deviation = np.array([0.1, 0.1, 0.4, np.nan])
    found = by_topic(verdict(curves(deviation=deviation, test=np.array([0.9, 0.9, 0.5, np.nan]), accuracy=0.9)))
    assert found["deviation"].numbers["minor_last"] == pytest.approx(0.4)
    assert found["fit"].numbers["minor_test"] == pytest.approx(0.5)
    nothing = by_topic(verdict(curves(test=np.array([0.9, 0.9, np.nan, np.nan]), accuracy=0.9)))
    assert "an unknown test accuracy" in nothing["fit"].text


@pytest.mark.parametrize(("absent", "name"), [((2, 3), "minor"), ((0, 1), "major")])
def test_groups_without_test_images_have_no_deviation(
    absent: tuple[int, int], name: str, result: Callable[..., Result]
) -> None:
    deviation = np.full(4, 0.2)
    deviation[list(absent)] = np.nan
    made = result(deviation=deviation)
    curves = curves_of(made)
    found = verdict(curves)
    assert not [finding.text for finding in found if "nan" in finding.text]
    assert by_topic(found)["deviation"].text.endswith(f"there are no test images of the {name} classes.")
    assert made.record.probes is not None
    kept = typed_json(Diagnosis(made.config, "", made.record.probes, curves, found, {}).kept(), indent=0).decode()
    assert '"ratio":null' in kept


def test_one_measurement_is_enough(curves: Make) -> None:
    found = by_topic(verdict(curves(at=(100,), train=np.array([[1.0, 1.0, 0.1, 0.1]]))))
    assert found["progress"].numbers["still_behind"] == ["class 2", "class 3"]
    assert "after epoch 100: minor classes 0.20, major ones 0.20" in found["deviation"].text


def test_runs_without_measurements_are_refused(result: Callable[..., Result]) -> None:
    with pytest.raises(RunError, match=r"run of ERM was not measured .*--probes, or .*procrustean diagnose"):
        curves_of(with_changes(result(), probes=None))


def test_extremes_are_the_first_of_the_largest_and_the_last_of_the_smallest(curves: Make) -> None:
    assert curves(counts=[50, 50, 5, 5]).extremes == (0, 3)
    assert curves(counts=[5, 50, 20, 9]).extremes == (1, 0)


def test_verdicts_need_no_torch() -> None:
    code = "import sys, procrustean.report.findings, procrustean.paper.claims; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_too_few_measurements_are_said_first(curves: Make) -> None:
    found = verdict(curves(train=late((0.0, 0.1)), at=(60,), epochs=60))
    assert found[0].topic == "measured"
    assert found[0].text == (
        "Measured epochs: 1 of 60, too few to tell when classes fall behind or catch up: train with --probe-every 6."
    )


def test_over_fitted_minor_classes_are_told_from_all_being_over_fitted(curves: Make) -> None:
    fitted = late(*[(1.0, 1.0)] * 5)
    apart = fitted - np.array([0.05, 0.05, 0.3, 0.3])
    (text,) = suggestions(verdict(curves(train=fitted, test=apart, deviation=0.1)))
    lost = "From training to test images the minor classes lose 30 points, the major ones 5. Try"
    assert text.startswith(lost)
    alike = fitted - 0.2
    assert not any("lose" in text for text in suggestions(verdict(curves(train=fitted, test=alike))))


def test_a_run_in_progress_is_not_judged_as_if_it_had_ended(curves: Make) -> None:
    train = late(*[(0.0, 0.0)] * 5)
    found = verdict(curves(train=train, test=0.5, mixed=0.1, epochs=200))
    assert found[0].text == "The run has not ended: measured up to epoch 100 of 200, so this is no verdict."
    assert "2 after epoch 100 ('class 2', 'class 3')." in by_topic(found)["progress"].text
    assert suggestions(found) == []


def test_few_epochs_do_not_tell_that_classes_were_late(curves: Make) -> None:
    whole = late((0.0, 0.0), (0.0, 0.0), (0.9, 0.9))
    caught = verdict(curves(train=whole, at=(20, 60, 100), deviation=0.1))
    assert "by epoch 100 of 100" in by_topic(caught)["progress"].text
    assert suggestions(caught)[0].startswith("Nothing stands out")


def test_one_class_that_is_behind_says_nothing_of_the_minor_classes(curves: Make) -> None:
    """Seven of eight minor classes are ahead of the major ones."""
    train = np.array([[0.9] * 4 + [1.0] * 7 + [0.5]] * 5)
    found = verdict(curves(train=train, test=train - 0.05, counts=[100] * 4 + [5] * 8, deviation=0.1))
    assert "1 after epoch 100 ('class 11'). The gap is widest after epoch 10: 93.8 % against 90.0 %." in (
        by_topic(found)["progress"].text
    )
    assert suggestions(found)[0].startswith("Nothing stands out")
