"""What is said about probabilities before they are used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from procrustean.deploy.cautions import cautions
from procrustean.engine.probabilities import Calibration

COUNTS = (500, 480, 3)
CLASSES = ("many", "some", "rare")


def caution(calibration: Calibration, *, with_prior: bool) -> str:
    """The only one, with equal frequencies as the prior if there is one; empty if there is none."""
    found = cautions(calibration, CLASSES, np.full(3, 1 / 3) if with_prior else None)
    assert len(found) <= 1
    return "".join(found)


@pytest.mark.parametrize("tau", [-0.5, 1.8])
def test_a_tau_that_is_chance_is_told_with_what_follows(tau: float) -> None:
    found = Calibration(1.0, tau, COUNTS, 40, tau_error=0.5)
    told = caution(found, with_prior=True)
    assert f"is {tau:.2f}, found on 40 held-out images" in told
    assert "the prior may make up for the class sizes too much or too little; compare with what is predicted" in told
    assert caution(found, with_prior=False).endswith("that the probabilities stand for are extrapolated")


def test_a_tau_that_could_not_be_seen_is_told_where_it_matters() -> None:
    unseen = Calibration(1.0, 0.5, COUNTS, 40, tau_error=0.97)
    assert "could hardly be seen on these" in caution(unseen, with_prior=True)
    assert caution(unseen, with_prior=False) == ""  # the probabilities do not depend on it
    assert caution(Calibration(1.0, 0.5, (500, 480, 300), 40, tau_error=0.97), with_prior=True) == ""
    assert caution(Calibration(1.0, 0.5, COUNTS, 40, tau_error=0.6), with_prior=True) == ""
    assert caution(Calibration(1.0, 0.5, COUNTS, 40), with_prior=True) == ""  # of a record that does not say


def test_without_held_out_images_a_prior_is_doubtful() -> None:
    plain, corrected = Calibration(1.0, 0.0, COUNTS, 0), Calibration(1.0, 1.0, COUNTS, 0)
    assert "may do so a second time" in caution(plain, with_prior=True)
    assert "the ranking counts" in caution(plain, with_prior=False)
    assert "the ranking counts" in caution(corrected, with_prior=True)


def test_classes_that_were_never_held_out_are_named_where_a_prior_gives_them_a_share() -> None:
    found = Calibration(1.0, 0.5, COUNTS, 40, tau_error=0.5, held_out=(20, 20, 0))
    told = caution(found, with_prior=True)
    assert told.startswith("no images were held out of rare, which the prior takes for 33.3 % of the images: ")
    assert "a guess" in told
    # Not a prior of one's own: the caution is for who has given one, too, and it would be as much of a guess with it.
    assert told.endswith("without one, or train with more images of them, so that some are held out")
    assert caution(found, with_prior=False) == ""
    assert cautions(found, CLASSES, np.array([0.6, 0.4, 0.0])) == []
    assert caution(replace(found, held_out=(20, 19, 1)), with_prior=True) == ""
    assert caution(replace(found, held_out=()), with_prior=True) == ""  # of a record that does not say
