"""What the model card says."""

from __future__ import annotations

from procrustean.deploy.model_card import _probabilities
from procrustean.engine.probabilities import Calibration
from small_spec import small_spec


def test_names_of_classes_that_were_never_held_out_are_shown_as_they_are() -> None:
    seen = Calibration(1.0, 0.5, (9, 3), 4, held_out=(0, 4))
    spec = small_spec(8, 8, classes=("*cat*", "dog"), calibration=seen)
    assert r"on 4 held-out images, none of them of \*cat\* (temperature" in _probabilities(spec, None)
