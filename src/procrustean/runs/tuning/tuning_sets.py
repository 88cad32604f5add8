"""Data sets that come with another one to choose options on."""

from __future__ import annotations

from dataclasses import replace

from procrustean.data.sets.base import DataSet
from procrustean.data.sets.table import all_sets
from procrustean.data.sources import has_validation
from procrustean.records.run_spec import RunSpec

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
    tuned_on = _tuning_set(reported.source)
    source = choose_on or (tuned_on.name if tuned_on else reported.source)
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
    tuned_on = _tuning_set(reported.source)
    if tuned_on is None:
        return reported
    # As many images of each class are set aside there for this, so none of its five has to be taken from training.
    hold_out = 0 if reported.hold_out == min(tuned_on.counts["val"]) else reported.hold_out
    return replace(reported, source=tuned_on.name, hold_out=hold_out)


def _tuning_set(source: str) -> DataSet | None:
    """The data set that options for another one are chosen on."""
    return next((found for found in all_sets() if source and found.tuning_of == source), None)
