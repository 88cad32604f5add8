"""Data sets that come with another one to choose options on."""

from __future__ import annotations

from dataclasses import replace

from procrustean.data.official.step_tiered import VAL_IMAGES
from procrustean.data.sources import has_validation
from procrustean.records.run_spec import RunSpec

#: The data set that is reported -> the one that options are chosen on.
TUNING_SETS = {"tiered-imagenet": "tiered-imagenet-tuning"}


#: Training images per class that decide where the source has no validation split; the paper's number.
PER_CLASS = 3


def default_hold_out(reported: RunSpec, choose_on: str | None) -> int:
    """What is held out where the user says nothing: 0, so that the validation split decides, or else three per class.

    Args:
        reported: settings of the training with the chosen options.
        choose_on: source that options are chosen on, if it was named.
    """
    if reported.hold_out_from == "source":  # who says where they are to be taken from wants some held out
        return PER_CLASS
    source = choose_on or TUNING_SETS.get(reported.source, reported.source)
    return 0 if has_validation(source, reported.on_bad_image) else PER_CLASS


def candidate_settings(reported: RunSpec, choose_on: str | None) -> RunSpec:
    """The settings under which candidates are trained and compared.

    Args:
        reported: those of the training with the chosen options, and how many images per class decide.
        choose_on: source that options are chosen on; None for the one that comes with the reported data set, if there
            is one, else for that data set itself.
    """
    if choose_on is not None:
        return replace(reported, source=choose_on)
    if reported.source not in TUNING_SETS:
        return reported
    # As many images of each class are set aside there for this, so none of its five has to be taken from training.
    hold_out = 0 if reported.hold_out == VAL_IMAGES else reported.hold_out
    return replace(reported, source=TUNING_SETS[reported.source], hold_out=hold_out)
