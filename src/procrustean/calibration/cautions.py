"""What has to be known about the probabilities of a model before they are used, in words."""

from __future__ import annotations

from .scaling import Calibration

#: What it means that a model is not calibrated: where its own classes are asked for, and where a prior changes them.
ROUGH = "the ranking counts, the probabilities are rough"
UNMEASURED = (
    "how far its method makes up for the class sizes already is not known, and the prior may do so a second time; "
    "compare with what is predicted without one, or train with --hold-out 0.15"
)


def frequencies_unknown(calibration: Calibration) -> bool:
    """Whether nothing tells how much of the class frequencies the scores hold.

    A tau that is not 0 without held-out images is that of a loss that has taken the class sizes out of the scores.
    """
    return not calibration.images and calibration.tau == 0


def caution(calibration: Calibration, *, with_prior: bool) -> str:
    """What to know about the probabilities; empty if there is nothing.

    Args:
        calibration: of the model.
        with_prior: whether they are for class frequencies that were given, or built into an export.
    """
    if calibration.images:
        return ""
    meaning = UNMEASURED if with_prior and frequencies_unknown(calibration) else ROUGH
    return f"not calibrated, since the run had no held-out images: {meaning}"
