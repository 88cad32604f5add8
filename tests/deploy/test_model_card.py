"""What the model card says of the calibration."""

from __future__ import annotations

from procrustean.deploy.model_card import _probabilities, calibration_text
from procrustean.engine.probabilities import Calibration
from small_spec import small_spec

ERRORS = {"ece_before": 0.021, "ece": 0.02, "ece_balanced_before": 0.04, "ece_balanced": 0.03}


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def test_all_errors_that_were_recorded_are_told() -> None:
    whole = calibration_text({**ERRORS, "ece_default": 0.019}, percent)
    assert whole == (
        "Expected calibration error on the test images: 2.1 % before, 1.9 % after for the class frequencies that the "
        "scores stand for, 2.0 % after for those of the held-out images; with classes weighted equally 4.0 % before, "
        "3.0 % after for equally frequent classes."
    )
    early = calibration_text({"ece_before": 0.021, "ece": 0.02}, percent)
    assert early.endswith("2.1 % before, 2.0 % after for those of the held-out images.")


def test_that_calibration_has_made_an_error_larger_is_said() -> None:
    larger = calibration_text({**ERRORS, "ece_default": 0.05, "ece_balanced": 0.06}, percent)
    assert (
        "For the class frequencies that the scores stand for and for equally frequent classes, calibration has made it "
        "larger" in larger
    )
    equal = calibration_text({**ERRORS, "ece_default": 0.02104}, percent)  # both are shown as 2.1 %
    assert "larger" not in equal


def test_names_of_classes_that_were_never_held_out_are_shown_as_they_are() -> None:
    seen = Calibration(1.0, 0.5, (9, 3), 4, held_out=(0, 4))
    spec = small_spec(8, 8, classes=("*cat*", "dog"), calibration=seen)
    text = _probabilities(spec, {"calibration": {"test": {"ece_before": 0.021, "ece": 0.02}}}, None)
    assert r"on 4 held-out images, none of them of \*cat\* (temperature" in text
