"""What has to be known about the probabilities of a model before they are used, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from procrustean.data.describe import some_names
from procrustean.engine.probabilities import TAU_WEIGHT, Calibration, Prior

#: What it means that a model is not calibrated: where its own classes are asked for, and where a prior changes them.
ROUGH = "the ranking counts, the probabilities are rough"
COMPARE = "compare with what is predicted without one"
UNMEASURED = (
    "how far its method makes up for the class sizes already is not known, and the prior may do so a second time; "
    f"{COMPARE}, or train with --hold-out 0.15"
)

#: Methods take none to all of the class frequencies out of the scores, tau 0 to 1; what is further out is chance.
USUAL_TAUS = (-0.2, 1.2)
#: A share of the error that tau would have without any held-out image, from which on these say nearly nothing about it.
HARDLY_SEEN = 0.9
#: Ratio of class sizes below which it makes little difference how much of them the scores hold.
NEARLY_EQUAL = 3.0


def frequencies_unknown(calibration: Calibration) -> bool:
    """Whether nothing tells how much of the class frequencies the scores hold.

    A tau that is not 0 without held-out images is that of a loss that has taken the class sizes out of the scores.
    """
    return not calibration.images and calibration.tau == 0


def tau_in_doubt(calibration: Calibration, *, with_prior: bool) -> str:
    """Why it is open how much of the class sizes the scores hold, and what follows; empty if there is no doubt."""
    lowest, highest = USUAL_TAUS
    found_on = f"found on {calibration.images} held-out images"
    if not calibration.images:
        return ""
    if not lowest <= calibration.tau <= highest:
        why = (
            f"tau, as a rule between 0 and 1, is {calibration.tau:.2f}, {found_on}, which are too few, or the network "
            "fits them too badly"
        )
    elif with_prior and _hardly_seen(calibration):
        why = (
            f"how much of the class sizes the scores hold (tau {calibration.tau:.2f}, {found_on}) could hardly be seen "
            "on these, because their classes are of nearly one size"
        )
    else:
        return ""
    if with_prior:
        return f"{why}: the prior may make up for the class sizes too much or too little; {COMPARE}"
    return f"{why}: the class frequencies that the probabilities stand for are extrapolated"


def _hardly_seen(calibration: Calibration) -> bool:
    if calibration.tau_error is None or max(calibration.counts) < NEARLY_EQUAL * min(calibration.counts):
        return False
    return calibration.tau_error > HARDLY_SEEN / math.sqrt(TAU_WEIGHT)


def sentence(text: str) -> str:
    """A caution as it stands among sentences."""
    return f"{text[0].upper()}{text[1:]}."


def never_held_out(calibration: Calibration, classes: Sequence[str]) -> list[str]:
    """The classes that a calibration has seen no image of; none where nothing was calibrated or it is not known."""
    return [name for name, images in zip(classes, calibration.held_out, strict=False) if not images]


def unseen_in_doubt(calibration: Calibration, classes: Sequence[str], prior: Prior) -> str:
    """What a prior does to classes of which no image was held out; empty where it does nothing to any.

    Without a prior their scores stand as the network gives them. A prior multiplies them by numbers that were found on
    other classes.
    """
    shares = dict(zip(classes, prior, strict=True))
    names = [name for name in never_held_out(calibration, classes) if shares[name] > 0]
    if not names:
        return ""
    share = 100 * sum(shares[name] for name in names)
    return (
        f"no images were held out of {some_names(names)}, which the prior takes for {share:.3g} % of the images: how "
        f"probable they are is a guess from the other classes; {COMPARE}, or train with more images of them, so that "
        "some are held out"
    )


def cautions(calibration: Calibration, classes: Sequence[str], prior: Prior | None) -> list[str]:
    """What to know about the probabilities.

    Args:
        calibration: of the model.
        classes: its classes.
        prior: class frequencies that the probabilities are for, given or built into an export; None for those that the
            scores stand for.
    """
    with_prior = prior is not None
    if not calibration.images:
        meaning = UNMEASURED if with_prior and frequencies_unknown(calibration) else ROUGH
        return [f"not calibrated, since the run had no held-out images of at least two classes: {meaning}"]
    found = [tau_in_doubt(calibration, with_prior=with_prior)]
    found += [] if prior is None else [unseen_in_doubt(calibration, classes, prior)]
    return [text for text in found if text]
