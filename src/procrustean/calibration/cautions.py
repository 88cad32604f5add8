"""What has to be known about the probabilities of a model before they are used, in words."""

from __future__ import annotations

from .scaling import Calibration

#: What it means that a model is not calibrated: where its own classes are asked for, and where a prior changes them.
ROUGH = "the ranking counts, the probabilities are rough"
UNMEASURED = (
    "how far its method makes up for the class sizes already is not known, and the prior may do so a second time; "
    "compare with what is predicted without one, or train with --hold-out 0.15"
)

#: Methods take none to all of the class frequencies out of the scores, tau 0 to 1; what is further out is chance.
USUAL_TAUS = (-0.2, 1.2)


def frequencies_unknown(calibration: Calibration) -> bool:
    """Whether nothing tells how much of the class frequencies the scores hold.

    A tau that is not 0 without held-out images is that of a loss that has taken the class sizes out of the scores.
    """
    return not calibration.images and calibration.tau == 0


def extrapolated(calibration: Calibration) -> str:
    """That the class frequencies which the scores stand for lie beyond what methods do; empty if they do not."""
    lowest, highest = USUAL_TAUS
    if not calibration.images or lowest <= calibration.tau <= highest:
        return ""
    return (
        f"tau, as a rule between 0 and 1, is {calibration.tau:.2f}, found on {calibration.images} held-out images, "
        "which are too few, or the network fits them too badly: the class frequencies that the probabilities stand for "
        "are extrapolated; give those of the use by --prior"
    )


def sentence(text: str) -> str:
    """A caution as it stands among sentences."""
    return f"{text[0].upper()}{text[1:]}."


def caution(calibration: Calibration, *, with_prior: bool) -> str:
    """What to know about the probabilities; empty if there is nothing.

    Args:
        calibration: of the model.
        with_prior: whether they are for class frequencies that were given, or built into an export.
    """
    if calibration.images:
        return "" if with_prior else extrapolated(calibration)
    meaning = UNMEASURED if with_prior and frequencies_unknown(calibration) else ROUGH
    return f"not calibrated, since the run had no held-out images: {meaning}"
