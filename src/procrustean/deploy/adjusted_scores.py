"""Logit adjustment of a trained network (Menon et al. 2021): its scores are shifted, nothing is trained."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import torch

from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.balance.metrics import Metrics
from procrustean.base.errors import ConfigError
from procrustean.base.own_code import plain_name
from procrustean.data.imageset import Splits
from procrustean.engine.evaluation import Scored, metrics_of, scored
from procrustean.engine.prepared_run import Prepared
from procrustean.nets.classifier import Classifier
from procrustean.runs.existing_runs import load_run
from procrustean.runs.lint import corrections
from procrustean.runs.torch_settings import undisturbed

#: What tau is chosen from, for scores as a softmax takes them; of equally good ones the smallest, which changes least.
GRID = tuple(tenths / 10 for tenths in range(21))

ON_HELD_OUT = "on the held-out images"


class Adjusted(NamedTuple):
    """A network tested with shifted scores, and without."""

    tau: float
    tau_chosen: str  # how
    adjusted: Metrics
    unadjusted: Metrics


@undisturbed()
def adjust(
    run: str | Path,
    *,
    tau: float | None = None,
    splits: Splits | None = None,
    source: str | os.PathLike[str] | None = None,
) -> Adjusted:
    """Test a finished run's network with scores shifted by the log of the class priors; the run stays as it is.

    Predicts argmax_c z_c - tau * log(n_c / N), n_c the training images of class c.

    Args:
        run: run directory.
        tau: strength of the shift, 0 for none; default the best of 0, 0.1, ..., 2 by the balanced accuracy on the
            held-out images, or 1 if there are none; divided by what the loss multiplies the scores
            by, as LDAM does by 30.
        splits: the data, for a run that was trained on a `Splits`.
        source: where the images are now, if they are no longer where they were.
    """
    if tau is not None and not 0 <= tau < math.inf:
        raise ConfigError(f"tau = {tau!r} received; it has to be 0 (no adjustment) or more")
    prepared, net = load_run(run, splits=splits, source=source)
    _refuse_corrected(run, prepared)
    scale = scale_of_scores(prepared.method.stages[-1].objective)
    counts = [int(n) for n in prepared.data.counts]
    how = "as given"
    if tau is None:
        tau, how = _chosen(prepared, net, counts, scale)
    if tau != 0 and how != ON_HELD_OUT:  # a tau that was chosen has a correction of the method's in it
        _warn_corrected(prepared, tau)
    test = scored(prepared, net, prepared.data.test)
    return Adjusted(tau, how, metrics_of(shifted(test, counts, tau), counts), metrics_of(test, counts))


def shifted(batches: Scored, counts: list[int], tau: float) -> Scored:
    """The batches with z_c - tau * log(n_c / N) for scores."""
    shifts = torch.tensor([tau * math.log(n / sum(counts)) for n in counts])
    return [(scores - shifts.to(scores), labels) for scores, labels in batches]


def _chosen(prepared: Prepared, net: Classifier, counts: list[int], scale: float) -> tuple[float, str]:
    if prepared.data.held_out is None:
        return 1 / scale, f"1{'' if scale == 1 else f' / {scale:g}, its scale'}, since no images are held out"
    held_out = scored(prepared, net, prepared.data.held_out)
    grid = [tau / scale for tau in GRID]
    accuracies = [metrics_of(shifted(held_out, counts, tau), counts).balanced_accuracy for tau in grid]
    return grid[accuracies.index(max(accuracies))], ON_HELD_OUT


def _refuse_corrected(run: str | Path, prepared: Prepared) -> None:
    if shifts_scores(prepared.method.stages[-1].objective):
        raise ConfigError(
            f"{run} was trained with {plain_name(prepared.config.method)!r}, whose loss corrects for the class sizes "
            "already: adjusting its scores would count them twice. Its plain scores are right: procrustean evaluate"
        )


def _warn_corrected(prepared: Prepared, tau: float) -> None:
    found = corrections(prepared.method)
    if found:
        warnings.warn(
            f"{prepared.label} makes up for the class sizes already ({' and '.join(found)}): a shift by "
            f"tau = {tau:g} does so a second time, at the cost of large classes; take 'unadjusted', or choose tau on "
            "held-out images (train with --hold-out and leave --tau out)",
            stacklevel=4,
        )
