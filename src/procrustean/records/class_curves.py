"""What was measured along a training, as arrays; read from a run's record, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from procrustean.balance.metrics import class_groups
from procrustean.base.epochs import PerClass
from procrustean.base.errors import RunError
from procrustean.base.json_files import FORMAT, read_typed
from procrustean.records.run_record import Probes, Result
from procrustean.records.run_spec import RunSpec

Rows = npt.NDArray[np.float64]  # [measured epochs, C], nan where undefined

#: Where diagnoses are kept, in a folder with the name of the run: a run's own folder stays as training left it.
DIAGNOSES = Path("diagnosis")
DIAGNOSIS = "diagnosis.json"
REMEDY = "make it anew: procrustean diagnose RUN"

MEASURED = ("train_recall", "test_recall", "classification_ratio", "gradient_norm", "feature_deviation")


@dataclass(frozen=True, eq=False)
class Curves:
    """The measurements of one run, classes as in the run: largest first."""

    label: str  # of the method, as in tables
    method: str
    options: Mapping[str, Any]
    classes: tuple[str, ...]
    counts: tuple[int, ...]  # training images
    epochs: int  # length of the training
    at: tuple[int, ...]  # epochs after which it was measured, counted from 1
    layers: tuple[str, ...]  # where gradients were measured then: stages may mix at different ones
    train_recall: Rows
    test_recall: Rows
    classification_ratio: Rows
    gradient_norm: Rows  # nothing mixed
    gradient_norm_mixed: Rows | None  # mixed as in training, nan in epochs that do not mix; None if none does
    feature_deviation: Rows

    @property
    def mixes(self) -> npt.NDArray[np.bool_]:
        """Whether the training mixes in each of the measured epochs, [measured epochs]."""
        if self.gradient_norm_mixed is None:
            return np.zeros(len(self.at), dtype=bool)
        return np.array([not np.isnan(row).all() for row in self.gradient_norm_mixed])

    @property
    def gradient_norm_trained(self) -> Rows:
        """The gradient norms that training has: mixed in the epochs that mix."""
        if self.gradient_norm_mixed is None:
            return self.gradient_norm
        return np.where(self.mixes[:, None], self.gradient_norm_mixed, self.gradient_norm)

    def until(self, epoch: int) -> Curves:
        """What was measured up to an epoch."""
        return self.where([at <= epoch for at in self.at])

    def at_layer(self, layer: str) -> Curves:
        """What was measured after the epochs whose gradients are those at a layer."""
        return self.where([own == layer for own in self.layers])

    def where(self, kept: Sequence[bool]) -> Curves:
        """What was measured after some of the epochs, by whether each of them is kept."""
        chosen, mixed = np.flatnonzero(kept), self.gradient_norm_mixed
        fewer: dict[str, Any] = {name: getattr(self, name)[chosen] for name in MEASURED}
        for name in ("at", "layers"):
            fewer[name] = tuple(getattr(self, name)[number] for number in chosen)
        return replace(self, gradient_norm_mixed=None if mixed is None else mixed[chosen], **fewer)

    @property
    def ended(self) -> bool:
        """Whether the end of the training was measured; of one in progress it was not yet."""
        return self.at[-1] >= self.epochs

    @property
    def groups(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which classes are major, at least the geometric mean of the counts, and which minor; [C] each."""
        groups = class_groups(self.counts)
        return groups["major"], groups["minor"]

    @property
    def extremes(self) -> tuple[int, int]:
        """The largest class, the first of equals, and the smallest, the last of equals."""
        counts = np.array(self.counts)
        return int(counts.argmax()), int(len(counts) - 1 - counts[::-1].argmin())


def curves_of(result: Result) -> Curves:
    """The measurements of a finished run.

    Raises:
        RunError: if the run was trained without probes.
    """
    record = result.record
    if record.probes is None:
        raise RunError(
            f"{result.place} was not measured while it was trained. Train it with --probes, or measure the weights it "
            "has kept, from this folder: procrustean diagnose RUN (the last weights alone are a point and no curve; "
            "--keep-weights-every keeps more)"
        )
    return measured_curves(
        record.probes,
        label=record.label,
        method=record.method.name,
        options=record.method.options,
        classes=record.data.classes,
        counts=record.data.counts,
        epochs=record.recipe.epochs,
    )


def measured_curves(
    probes: Probes,
    *,
    label: str,
    method: str,
    options: Mapping[str, Any],
    classes: Sequence[str],
    counts: Sequence[int],
    epochs: int,
) -> Curves:
    """The measurements of a run, finished or not, from its probes and what is known of it."""
    mixed = probes.gradient_norm_mixed
    return Curves(
        label=label,
        method=method,
        options=options,
        classes=tuple(classes),
        counts=tuple(counts),
        epochs=epochs,
        at=tuple(epoch + 1 for epoch in probes.epochs),
        layers=tuple(probes.layer),
        **{name: _rows(getattr(probes, name), len(classes)) for name in MEASURED},
        # A method may mix in one of its stages only.
        gradient_norm_mixed=_rows(mixed, len(classes)) if any(mixed) else None,
    )


class Finding(Struct, frozen=True):
    """One statement about a run and its numbers (fractions, not percent)."""

    topic: str  # measured, progress, ratio, gradients, deviation, fit or suggestion
    text: str
    numbers: dict[str, Any] = {}


class Diagnosed(Struct, frozen=True, kw_only=True):
    """The content of a diagnosis: of which run, what was measured of it, and what that says."""

    format: Literal[1] = FORMAT
    label: str  # of the method
    config: RunSpec
    split_hash: str  # of its images
    probes: Probes
    measured_now: dict[int, str]  # epoch, counted from 1 -> the file whose weights were measured
    findings: list[Finding]


def with_diagnosis(result: Result) -> Result:
    """The result with the measurements of its diagnosis, if it has none of its own and was diagnosed from here."""
    if result.record.probes is not None or result.path is None:
        return result
    file = DIAGNOSES / result.path.parent.name / DIAGNOSIS
    if not file.is_file():
        return result
    diagnosed = read_typed(file, Diagnosed, REMEDY)
    if (diagnosed.config, diagnosed.split_hash) != (result.config, result.data.split_hash):
        return result  # of another run of this name
    return result.with_probes(diagnosed.probes)


def common_epochs(runs: Sequence[Curves]) -> tuple[int, ...]:
    """Those that all of several runs have measured."""
    return tuple(sorted(set.intersection(*(set(curves.at) for curves in runs))))


def stacked(runs: Sequence[Curves], name: str) -> npt.NDArray[np.float64]:
    """A curve of several runs at the epochs that all have measured, [runs, epochs, C]."""
    at = common_epochs(runs)
    return np.array([getattr(curves, name)[[curves.at.index(epoch) for epoch in at]] for curves in runs])


def mean_curves(runs: Sequence[Curves]) -> Curves:
    """The mean of what was measured of runs that differ in their seeds alone."""
    common = common_epochs(runs)
    mixes = all(curves.gradient_norm_mixed is not None for curves in runs)
    means = {name: stacked(runs, name).mean(axis=0) for name in (*MEASURED, *["gradient_norm_mixed"] * mixes)}
    first = runs[0].where([epoch in common for epoch in runs[0].at])
    return replace(first, **{"gradient_norm_mixed": None, **means})


def _rows(values: Sequence[PerClass], classes: int) -> Rows:
    """Measurements as an array, with nan for what is undefined."""
    complete = [row if row is not None else [None] * classes for row in values]
    return np.array([[np.nan if value is None else value for value in row] for row in complete], dtype=np.float64)
