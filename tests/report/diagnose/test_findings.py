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
from procrustean.report.diagnose.findings import (
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
    assert progress.numbers["share_of_training"] == 1.0
    assert progress.numbers["still_behind"] == []
    assert progress.text == (
        "2 of the 2 minor classes are under-fitted at first: after epoch 10 of 100 the minor classes are at 5.0 % "
        "training accuracy, the major ones at 95.0 %. All of them catch up to within 20 points between epochs 40 and "
        "100, the last at 100 % of the training."
    )


def test_a_class_that_falls_back_has_not_caught_up_before(curves: Make) -> None:
    train = late((0.0, 0.9), (0.9, 0.9), (0.1, 0.9), (0.9, 0.9), (0.9, 0.9))
    progress = by_topic(verdict(curves(train=train)))["progress"]
    assert progress.numbers["caught_up"] == {"class 2": 80}
    assert progress.text.startswith("1 of the 2 minor classes is under-fitted")
    assert "by epoch 80, the last at 80 % of the training" in progress.text


def test_classes_that_never_catch_up_are_named(curves: Make) -> None:
    train = late(*[(0.0, 0.0)] * 3, (0.9, 0.1), (1.0, 0.4))
    found = verdict(curves(train=train, options={"drw": False}))
    progress = by_topic(found)["progress"]
    assert progress.numbers["still_behind"] == ["class 3"]
    assert "1 never catches up: 'class 3' 40.0 % after the last epoch." in progress.text
    (text,) = (text for text in suggestions(found) if "still under-fitted" in text)
    assert text.startswith("1 class is still under-fitted after 100 epochs although the major ones are at 95.0 %")
    assert text.endswith("try deferred re-weighting (--drw), or more epochs.")


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("erm", {"drw": True}, "Try --method ldam --drw, best of"),
        ("ldam", {"drw": True}, "The method is the one that is advised for these counts: ldam --drw, best of"),
        ("balanced_softmax", {}, "Try --method ldam --drw, best of"),
    ],
)
def test_nothing_is_suggested_that_was_done_or_cannot_be(
    curves: Make, method: str, options: dict[str, bool], said: str
) -> None:
    train = late(*[(0.0, 0.0)] * 3, (0.9, 0.1), (1.0, 0.4))
    texts = suggestions(verdict(curves(train=train, test=[0.9, 0.9, 0.1, 0.1], method=method, options=options)))
    (behind,) = (text for text in texts if "still under-fitted" in text)
    assert behind.endswith("try more epochs.")
    (over_fitted,) = (text for text in texts if "are over-fitted" in text)
    assert said in over_fitted


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
    assert "8 never catch up (the first 5 of 8)" in progress.text
    assert progress.text.count("'class ") == 5


def test_equal_progress_is_said_to_be_so(curves: Make) -> None:
    found = verdict(curves(train=0.97, test=0.95, deviation=0.1))
    progress = by_topic(found)["progress"]
    assert progress.numbers["under_fitted"] == 0
    assert progress.text.startswith("No class is under-fitted: the 2 minor classes stay within 20 points")
    assert "5 measured epochs (the first is 10)" in progress.text
    assert suggestions(found) == ["Nothing stands out that another method, alpha or layer would be expected to mend."]


def test_balanced_counts_have_no_minor_classes(curves: Make) -> None:
    (only,) = verdict(curves(counts=[50, 50, 50]))
    assert only.text == "All 3 classes have about 50 images: nothing is minor here."


def test_the_ratio_of_the_extremes(curves: Make) -> None:
    ratio = np.array([[1.3, 1.0, 0.5, 0.02]] + [[1.1, 1.0, 0.9, 0.5]] * 3 + [[1.0, 1.0, 1.0, 0.8]])
    found = by_topic(verdict(curves(ratio=ratio)))["ratio"]
    assert "'class 0', 100 images, 130.0 % after epoch 10 and 100.0 % at the end" in found.text
    assert "'class 3', 5 images, 2.0 % and 80.0 %" in found.text
    assert found.numbers["smallest_then"] == 0.02


def test_the_pull_of_the_loss(curves: Make) -> None:
    gradient = np.array(
        [[0.2, 0.2, 1, 1], [0.1, 0.1, 2, 2], [0.1, 0.1, 1, 1], [0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.4, 0.4]]
    )
    found = by_topic(verdict(curves(gradient=gradient)))["gradients"]
    assert found.numbers["epoch"] == 20
    assert found.numbers["ratio_then"] == pytest.approx(20)
    assert found.numbers["ratio_last"] == pytest.approx(4)
    assert found.text.startswith("The loss pulls at the features of the minor classes (group2) harder than at those of")
    assert "after epoch 20, when it pulls at them most, their gradients" in found.text
    assert "a ratio of 20.0; at the end it is 4.0." in found.text
    assert "Without the mixing" not in found.text
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
        "The loss pulls at the features of the minor classes (input, epochs 10 to 40) harder than at those of the "
        "major ones: after epoch 20, when it pulls at them most, their gradients are 3 long on average, those of the "
        "major classes 1, a ratio of 3.0; after epoch 40 it is 2.0. Without the mixing the same weights would give 8.0."
    )
    assert at_group.text == (
        "The loss pulls at the features of the minor classes (group2, epochs 80 to 100) harder than at those of the "
        "major ones: after epoch 100, when it pulls at them most, their gradients are 0.3 long on average, those of "
        "the major classes 0.1, a ratio of 3.0."
    )


def test_gradients_are_mixed_in_the_epochs_that_mix(curves: Make) -> None:
    made = curves(**two_stages(layers=()))
    assert made.mixes.tolist() == [True, True, True, False, False]
    assert made.gradient_norm_trained[:, 2].tolist() == [2, 3, 2, 0.2, 0.3]
    (found,) = (finding for finding in verdict(made) if finding.topic == "gradients")
    assert found.numbers["ratio_then"] == pytest.approx(3)
    assert "(group2) harder" in found.text
    assert found.text.endswith("at the end it is 3.0. Without the mixing the same weights would give 8.0.")
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


@pytest.mark.parametrize(
    ("minor", "said"),
    [
        (0.261, "harder than at those of the major ones"),
        (0.103, "about as hard as at those of the major ones"),
        (0.041, "less hard than at those of the major ones"),
    ],
)
def test_the_pull_is_worded_by_its_ratio(curves: Make, minor: float, said: str) -> None:
    found = by_topic(verdict(curves(gradient=np.array([[0.1, 0.1, minor, minor]] * 5))))["gradients"]
    assert f"minor classes (group2) {said}: after epoch 10" in found.text
    once = by_topic(verdict(curves(gradient=np.array([[0.1, 0.1, minor, minor]]), at=(100,))))["gradients"]
    assert f"{said}: after epoch 100 their gradients are {minor:.3g} long" in once.text


def test_how_far_features_drift_and_what_it_suggests(curves: Make) -> None:
    deviation = np.array([[0.1, 0.1, 0.15, 0.15]] * 4 + [[0.2, 0.2, 0.5, 0.7]])
    found = verdict(curves(train=0.99, deviation=deviation))
    drift = by_topic(found)["deviation"]
    assert drift.numbers["ratio"] == pytest.approx(3.0)
    assert "lie 0.60 from their training features at the end, those of the major classes 0.20: 3.0 times" in drift.text
    assert "After epoch 10 they were 0.15 and 0.10." in drift.text
    (text,) = suggestions(found)
    assert text.startswith(
        "Test features of the minor classes drift 3.0 times as far as those of the major classes. Try --method ldam"
    )
    other, weakened = suggestions(
        verdict(curves(train=0.99, deviation=deviation, method="mfw", options={"alpha": 1.0}))
    )
    assert other == text
    assert "larger alpha (now 1;" in weakened
    assert "now group2" in weakened


def test_fitting_late_suggests_another_method(curves: Make) -> None:
    train = late((0.0, 0.0), (0.1, 0.1), (0.9, 0.9), (0.9, 0.9), (0.9, 0.9))
    for method in ("erm", "mfw"):
        (text,) = suggestions(verdict(curves(train=train, deviation=0.1, method=method)))
        assert text.startswith("The minor classes need 40 % of the training to catch up. Try --method ldam --drw, ")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([100, 80, 10, 5], "2 classes rests on fewer than 20 images each: of 'class 3', which has 5, one image is 20"),
        ([100, 80, 25, 10], "1 class rests on fewer than 20 images: of 'class 3', which has 10, one image is 10"),
        ([100, 80, 20, 20], ""),
    ],
)
def test_accuracies_of_few_images_are_said_to_be_so(curves: Make, counts: list[int], said: str) -> None:
    text = by_topic(verdict(curves(counts=counts)))["fit"].text
    assert text.endswith(f" The training accuracy of {said} points." if said else "90.0 %.")


def test_a_single_measured_epoch_is_named(curves: Make) -> None:
    text = by_topic(verdict(curves(train=0.97, at=(100,))))["progress"].text
    assert text.endswith("in training accuracy after epoch 100, the only one that was measured.")


def test_major_classes_that_are_not_fitted_need_epochs_or_less_weakening(curves: Make) -> None:
    train = np.array([[0.5, 0.5, 0.5, 0.5]] * 5)
    plain, weakened = (suggestions(verdict(curves(train=train, test=0.5, method=m))) for m in ("erm", "mfw"))
    assert "end at 50.0 % training accuracy: try more epochs than 100." in plain[0]
    assert "or a smaller alpha (now the default)" in weakened[0]


def test_over_fitted_major_classes_are_beyond_balancing(curves: Make) -> None:
    texts = suggestions(verdict(curves(train=1.0, test=0.6, deviation=0.1)))
    assert any("lose 40 points from training to test images" in text for text in texts)


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
    assert "After epoch" not in found["deviation"].text


def test_runs_without_measurements_are_refused(result: Callable[..., Result]) -> None:
    with pytest.raises(RunError, match=r"run of ERM was not measured .*--probes, or .*procrustean diagnose"):
        curves_of(with_changes(result(), probes=None))


def test_extremes_are_the_first_of_the_largest_and_the_last_of_the_smallest(curves: Make) -> None:
    assert curves(counts=[50, 50, 5, 5]).extremes == (0, 3)
    assert curves(counts=[5, 50, 20, 9]).extremes == (1, 0)


def test_verdicts_need_no_torch() -> None:
    code = "import sys, procrustean.report.diagnose.findings, procrustean.paper.claims; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(("at", "said"), [((2, 6), "epochs 2 and 6 of 6"), ((2, 4, 6), "epochs 2, 4 and 6 of 6")])
def test_few_epochs_are_listed(at: tuple[int, ...], said: str, curves: Make) -> None:
    assert verdict(curves(at=at, epochs=6))[0].text.startswith(f"Only {said} were measured")


def test_too_few_measurements_are_said_first(curves: Make) -> None:
    found = verdict(curves(train=late((0.0, 0.1)), at=(60,), epochs=60))
    assert found[0].topic == "measured"
    assert found[0].text == (
        "Only epoch 60 of 60 was measured, too few to tell when classes fall behind or catch up: train with "
        "--probe-every 6."
    )
    assert "at first" not in by_topic(found)["progress"].text
    assert "at the end it is" not in by_topic(found)["gradients"].text


def test_over_fitted_minor_classes_are_told_from_all_being_over_fitted(curves: Make) -> None:
    fitted = late(*[(1.0, 1.0)] * 5)
    apart = fitted - np.array([0.05, 0.05, 0.3, 0.3])
    (text,) = suggestions(verdict(curves(train=fitted, test=apart, deviation=0.1, method="mfw")))
    assert text.startswith("The minor classes are over-fitted: they lose 30 points from training to test images, the")
    alike = fitted - 0.2
    assert not any("over-fitted" in text for text in suggestions(verdict(curves(train=fitted, test=alike))))


def test_only_classes_that_were_learnt_are_called_over_fitted(curves: Make) -> None:
    train = late(*[(0.0, 0.0)] * 4, (0.4, 0.0))  # the minor classes end at 20 % of their training images
    test = np.array([1.0, 0.9, 0.05, 0.0])
    texts = suggestions(verdict(curves(train=train, test=test, deviation=0.1)))
    assert any("2 classes are still under-fitted" in text for text in texts)
    assert not any("over-fitted" in text for text in texts)
    train = late(*[(0.0, 0.0)] * 4, (1.0, 0.0))
    (text,) = (t for t in suggestions(verdict(curves(train=train, test=test))) if "over-fitted" in t)
    assert "Minor classes that are fitted (1 of 2) are over-fitted: they lose 95 points" in text


def test_a_run_in_progress_is_not_judged_as_if_it_had_ended(curves: Make) -> None:
    train = late(*[(0.0, 0.0)] * 5)
    found = verdict(curves(train=train, test=0.5, mixed=0.1, epochs=200))
    assert found[0].text.startswith("The run has been measured up to epoch 100 of 200")
    texts = " ".join(finding.text for finding in found)
    assert "2 have not caught up: 'class 2' 0.0 %, 'class 3' 0.0 % after epoch 100." in texts
    for wrong in ("at the end", "At the end", "last epoch", "never", "after 200 epochs", "Try"):
        assert wrong not in texts
    (text,) = suggestions(found)
    assert text.startswith("Let it train to its end")
    whole = " ".join(finding.text for finding in verdict(curves(train=train, test=0.5, mixed=0.1)))
    assert "At the end the minor classes have 0.0 % training" in whole


def test_few_epochs_tell_who_is_behind_and_not_when(curves: Make) -> None:
    train = late((0.0, 0.0), (0.0, 0.0), (0.9, 0.1))
    found = verdict(curves(train=train, at=(20, 60, 100), deviation=0.1))
    progress = by_topic(found)["progress"]
    assert progress.numbers["share_of_training"] is None
    assert "under-fitted: after epoch 20 of 100" in progress.text
    assert "1 of them is within 20 points after the last epoch." in progress.text
    assert "1 has not caught up: 'class 3' 10.0 % after the last epoch." in progress.text
    whole = late((0.0, 0.0), (0.0, 0.0), (0.9, 0.9))
    caught = verdict(curves(train=whole, at=(20, 60, 100), deviation=0.1))
    assert "All of them are within 20 points after the last epoch." in by_topic(caught)["progress"].text
    assert suggestions(caught)[0].startswith("Nothing stands out")
    for text in (finding.text for finding in (*found[1:], *caught[1:])):
        assert "never" not in text
        assert "catch up" not in text


def test_one_class_that_is_behind_says_nothing_of_the_minor_classes(curves: Make) -> None:
    """Seven of eight minor classes are ahead of the major ones."""
    train = np.array([[0.9] * 4 + [1.0] * 7 + [0.5]] * 5)
    found = verdict(curves(train=train, test=train - 0.05, counts=[100] * 4 + [5] * 8, deviation=0.1))
    progress = by_topic(found)["progress"]
    assert progress.text.startswith(
        "1 of the 8 minor classes is under-fitted, though not all of them together: after epoch 10 of 100 the "
        "minor classes are at 93.8 % training accuracy, the major ones at 90.0 %."
    )
    (text,) = suggestions(found)
    assert text == (
        "1 class is still under-fitted after 100 epochs although the minor ones together are at 93.8 %, the major ones "
        "at 90.0 %: the sizes of the classes alone do not explain it, so look at the images of 'class 11'."
    )
