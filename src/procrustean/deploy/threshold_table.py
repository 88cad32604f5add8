"""The table of thresholds of a model, from the scores of its held-out images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from procrustean.base.table_formats import NOTHING, Cell, Column, Table
from procrustean.deploy.calibration.class_thresholds import Threshold, thresholds
from procrustean.deploy.model_loading import built_in_prior, held_out_of, model_folder, spec_of
from procrustean.engine.class_priors import read_prior
from procrustean.engine.probabilities import class_frequencies

#: Lower thresholds are not told apart where they are shown.
SMALLEST_SHOWN = 0.001


def thresholds_of(
    model: str | Path, *, precision: float | None = None, recall: float | None = None, prior: str | None = None
) -> list[Threshold]:
    """From which probability on each class has the wanted precision, or up to which it has the wanted recall.

    Args:
        model: folder of a run or an export.
        precision, recall: what is wanted, one of the two, above 0 and at most 1.
        prior: class frequencies where it is used, the same as for `predict`; precision depends on them. Without it
            the probabilities are those that `predict` gives without it, and precision is counted on the held-out images
            as they are, or for what an export has built in.
    """
    folder = model_folder(model)
    spec = spec_of(folder)
    scores, labels = held_out_of(model)
    q = built_in_prior(folder) if prior is None else read_prior(prior, spec.classes, spec.calibration.counts)
    weights = None
    if q is not None:
        held_out = class_frequencies(labels, len(spec.classes))
        weights = (q / np.where(held_out > 0, held_out, 1.0))[labels]
    probabilities = np.exp(spec.calibration.log_probabilities(scores, q))
    found = thresholds(probabilities, labels, spec.classes, precision=precision, recall=recall, weights=weights)
    frequencies = spec.calibration.frequencies(q)
    return [replace(t, frequency=float(share)) for t, share in zip(found, frequencies, strict=True)]


def table_of(found: Sequence[Threshold], wanted: str) -> Table:
    """The thresholds to be shown; the numbers in percent are rounded, and whole in CSV.

    CSV also has the class frequencies that they are for, by which `predict` knows whether it may apply them.

    Args:
        found: of each class.
        wanted: what they were asked for, in words.
    """
    names = ("class", "announce_from", "precision", "recall", "held_out_images")
    headings = ("class", "announce from", "precision %", "recall %", "held-out images")
    shown = tuple(Column(n, h, numeric=n != "class") for n, h in zip(names, headings, strict=True))
    rows = tuple(
        (
            Cell(t.name),
            _announce_from(t),
            _percent(t.precision),
            _percent(t.recall),
            Cell(str(t.images)),
            Cell(NOTHING if t.frequency is None else repr(t.frequency)),
        )
        for t in found
    )
    return Table(f"Thresholds for {wanted}", (*shown, Column("prior", "prior", csv_only=True)), rows)


def _announce_from(threshold: Threshold) -> Cell:
    """The number as it keeps its promise; one that nobody would read is named, and whole in CSV."""
    if threshold.value is None:
        return Cell(NOTHING)
    whole = np.format_float_positional(threshold.value, trim="-")
    if threshold.always:
        return Cell("always", whole=whole)
    return Cell(f"below {SMALLEST_SHOWN}", whole=whole) if threshold.value < SMALLEST_SHOWN else Cell(whole)


def _percent(share: float | None) -> Cell:
    return Cell(NOTHING) if share is None else Cell(f"{100 * share:.1f}", whole=repr(share))
