"""Curves along the epochs: mean and spread over the repeats of a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from procrustean.balance.metrics import class_groups
from procrustean.records.groups import GROUP_METRICS, Group
from procrustean.records.run_record import Result

ACCURACIES = ("test_accuracy", "test_balanced_accuracy", "held_out_balanced_accuracy")
MOST_NUMBERS = 100_000  # of one quantity; with thousands of classes fewer epochs are kept

#: What one run measured: the values by epoch, counted from 0.
Series = Mapping[int, Sequence[float | None]]


@dataclass(frozen=True)
class Curve:
    """Values along the epochs measured in all repeats; undefined ones are NaN."""

    epochs: NDArray[np.int64]  # from 1, [T]
    mean: NDArray[np.float64]  # [T, lines]
    sd: NDArray[np.float64] | None  # [T, lines]; None for a single run
    measured: int  # epochs there were before thinning

    def to_json(self, *, percent: bool) -> dict[str, Any]:
        """Plain lists; shares in percent, other values with five digits that count."""
        shown = shown_percent if percent else five_digits

        def plain(values: NDArray[np.float64]) -> list[list[float | None]]:
            return [[shown(value) for value in row] for row in values.tolist()]

        return {
            "epochs": self.epochs.tolist(),
            "mean": plain(self.mean),
            "sd": None if self.sd is None else plain(self.sd),
            "measured": self.measured,
        }


def overall_curves(group: Group) -> dict[str, Curve]:
    """One line each: loss, lr, test and held-out accuracies, recall by class size."""
    by_size = [_by_size(result) for result in group.results]
    found = {
        "loss": _curve([_per_epoch(result, "loss") for result in group.results]),
        "lr": _curve([_per_epoch(result, "lr") for result in group.results]),
        **{name: _curve([_evaluated(result, name) for result in group.results]) for name in ACCURACIES},
        **{size: _curve([run[size] for run in by_size]) for size in GROUP_METRICS},
    }
    return {name: curve for name, curve in found.items() if curve is not None}


def class_curves(group: Group) -> dict[str, Curve]:
    """One line per class: recalls on test and training images, and what was probed."""
    runs = group.results
    found = {
        "test_recall": _curve([_evaluated(run, "test_recall") for run in runs]),
        "train_recall": _curve([_evaluated(run, "train_recall") or _probed(run, "train_recall") for run in runs]),
        "classification_ratio": _curve([_probed(run, "classification_ratio") for run in runs]),
        "gradient_norm_on": _curve([_probed(run, "gradient_norm_mixed") for run in runs]),
        "gradient_norm_off": _curve([_probed(run, "gradient_norm") for run in runs]),
        "feature_deviation": _curve([_probed(run, "feature_deviation") for run in runs]),
    }
    return {name: curve for name, curve in found.items() if curve is not None}


def gradient_layers(group: Group) -> dict[str, str]:
    """The layers at which gradients were measured, each with its epochs in words: stages may differ in it."""
    probes = group.results[0].record.probes
    epochs: dict[str, list[int]] = {}
    for epoch, layer in () if probes is None else zip(probes.epochs, probes.layer, strict=True):
        epochs.setdefault(layer, []).append(epoch + 1)
    return {layer: epochs_text(at) for layer, at in epochs.items()}


def epochs_text(at: Sequence[int]) -> str:
    """The first and the last of some epochs in words.

    >>> epochs_text([2, 4, 6]), epochs_text([20])
    ('epochs 2 to 6', 'epoch 20')
    """
    return f"epoch {at[0]}" if len(at) == 1 else f"epochs {at[0]} to {at[-1]}"


def _per_epoch(result: Result, name: str) -> Series:
    return {epoch: [value] for epoch, value in enumerate(getattr(result.record.curves, name))}


def _evaluated(result: Result, name: str) -> Series:
    curves = result.record.curves
    return _by_epoch(curves.evaluated, getattr(curves, name) or [])


def _by_size(result: Result) -> dict[str, Series]:
    """The mean recall of every class size along the epochs, without epochs at which it is undefined."""
    means = {epoch: recall_by_size(row, result.data.counts) for epoch, row in _evaluated(result, "test_recall").items()}
    return {
        size: {epoch: [mean[size]] for epoch, mean in means.items() if mean[size] is not None} for size in GROUP_METRICS
    }


def _probed(result: Result, name: str) -> Series:
    probes = result.record.probes
    return {} if probes is None else _by_epoch(probes.epochs, getattr(probes, name))


def _by_epoch(epochs: Sequence[int], rows: Sequence[Any]) -> Series:
    return {
        epoch: row if isinstance(row, list) else [row]
        for epoch, row in zip(epochs, rows, strict=False)  # of what was not measured there are no rows
        if row is not None
    }


def _curve(runs: Sequence[Series]) -> Curve | None:
    """Mean and sample standard deviation over the runs, at the epochs that all of them measured."""
    epochs = sorted(set.intersection(*(set(run) for run in runs)))
    if not epochs:
        return None
    measured = len(epochs)
    lines = len(runs[0][epochs[0]])
    kept = max(2, MOST_NUMBERS // lines)
    if measured > kept:
        epochs = [epochs[i] for i in np.unique(np.linspace(0, measured - 1, kept).round().astype(int))]
    values = np.array(
        [[[np.nan if v is None else v for v in run[epoch]] for epoch in epochs] for run in runs], dtype=np.float64
    )
    return Curve(
        epochs=np.array(epochs, dtype=np.int64) + 1,
        mean=values.mean(axis=0),
        sd=values.std(axis=0, ddof=1) if len(runs) > 1 else None,
        measured=measured,
    )


def shown_percent(share: float | None) -> float | None:
    """A share in percent with three decimals, which every way of rounding to one decimal shows as Python does.

    >>> shown_percent(0.7645), f"{100 * 0.7645:.1f}"
    (76.449, '76.4')
    """
    if share is None or not np.isfinite(share):
        return None
    value = 100 * share
    thousandths = round(1000 * value)
    if abs(thousandths) % 100 == 50:
        thousandths += 1 if float(f"{value:.1f}") > thousandths / 1000 else -1
    return thousandths / 1000


def five_digits(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def recall_by_size(recall: Sequence[float | None], counts: Sequence[int]) -> dict[str, float | None]:
    """Mean recall of each group of `class_groups`, over its classes that have test images; None without any.

    >>> recall_by_size([0.9, 0.5, None], [500, 50, 5])["many"]
    0.9
    """
    values = np.array([np.nan if value is None else value for value in recall], dtype=np.float64)
    means = {}
    for name, members in class_groups(counts).items():
        known = values[members & ~np.isnan(values)]
        means[name] = float(known.mean()) if known.size else None
    return means
