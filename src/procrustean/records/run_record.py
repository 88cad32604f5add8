"""What a finished run leaves behind: its record, which result.json holds, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from procrustean.balance.metrics import Count, Metrics, Share
from procrustean.base.console import command_text
from procrustean.base.epochs import EpochRecord, PerClass, Probed
from procrustean.base.errors import RunError
from procrustean.base.json_files import FORMAT, read_typed
from procrustean.data.recipe import Recipe
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, no_run_at
from procrustean.records.run_spec import RunSpec, check_known

Selection = Literal["last", "held_out", "oracle"]


class MetaRecord(Struct, frozen=True, kw_only=True):
    """The balanced set that a method learns weights from."""

    images: Count
    per_class: Count
    spare: Count  # that are no training images
    train: Count  # that are


class DataRecord(Struct, frozen=True, kw_only=True):
    """The images of a run, classes as trained: largest first."""

    source: str
    note: str
    classes: list[str]
    counts: list[Count]  # training images per class
    kind: str  # of imbalance
    rho: float
    split_hash: str  # of the source, the chosen and held-out images and the class order
    source_hash: str
    train: Count
    test: Count
    image_shape: tuple[int, int, int]
    held_out: Count
    held_out_counts: list[Count]  # per class; empty where none are
    left_out_of_hold_out: list[str]
    meta: MetaRecord | None


class StageRecord(Struct, frozen=True, kw_only=True):
    """A stage of a method as it was trained."""

    name: str
    epochs: Count


class ScoresRecord(Struct, frozen=True, kw_only=True):
    """What the loss of a method in a file makes of the scores: a model is used without importing the file."""

    corrected: bool
    scale: float


class MethodRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The method of a run."""

    name: str
    options: dict[str, Any]  # with the defaults that were not given
    stages: list[StageRecord]
    finish: dict[str, Any]  # what was done to the trained network
    parameters: Count
    sha256: str | None = None  # of the code of one in a file
    scores: ScoresRecord | None = None
    swa_first_epoch: Count | None = None


class Selected(Struct, frozen=True, kw_only=True):
    """The network of an epoch, by its metrics on the test images."""

    epoch: Count
    metrics: Metrics
    chosen_by: float | None = None  # the accuracy by which it is the best


class Selections(Struct, frozen=True, kw_only=True):
    """The last epoch, the best on held-out images, and the best on the test images."""

    last: Selected
    held_out: Selected | None = None
    oracle: Selected | None = None


class CalibrationRecord(Struct, frozen=True, kw_only=True):
    """How scores become probabilities, and how good these are on the test images."""

    temperature: Annotated[float, Meta(gt=0)]
    tau: float
    counts: list[Annotated[int, Meta(gt=0, le=2**53)]]
    images: Count
    test: dict[str, float]
    tau_error: float | None = None
    held_out: list[Count] = []


class ImageMeasures(Struct, frozen=True, kw_only=True):
    """What is measured image by image after the last epoch, of a user's own images."""

    interval: tuple[Share, Share]  # of the headline, 95 %, by the bootstrap
    resamples: Count
    groups: Count | None  # of test images, which were drawn as a whole; None where each was drawn by itself
    fewest_tested: str  # the class with the fewest test images
    fewest_images: Count
    cautions: list[str] = []  # why the headline may be too good
    training_accuracy: Share | None = None  # balanced, on clean training images, up to 1000 of them
    auroc: PerClass = None  # of each class against the others, by its probability
    average_precision: PerClass = None


class PretrainedRecord(Struct, frozen=True, kw_only=True):
    """The weights that a run started from."""

    path: str
    sha256: str


class Environment(Struct, frozen=True, kw_only=True):
    """Versions and machine."""

    device: str
    machine: str
    precision: str
    reason: str  # for the device and the precision
    engine: str
    engine_reason: str
    kernels: str
    images: dict[str, str]  # where they were, by their use
    torch: str
    python: str
    procrustean: str
    platform: str


class TrainingCurves(Struct, frozen=True, kw_only=True):
    """Loss and rate of every epoch, and what was measured after those that were evaluated."""

    loss: list[float | None]
    lr: list[float | None]
    evaluated: list[Count]  # epochs, from 0
    test_accuracy: list[Share]
    test_balanced_accuracy: list[Share]
    held_out_balanced_accuracy: list[Share] | None
    test_recall: list[list[Share | None]]
    train_recall: list[list[Share | None] | None]

    @classmethod
    def of(cls, epochs: Sequence[EpochRecord]) -> TrainingCurves:
        """The curves of a training, from its epochs."""
        evaluated = [epoch for epoch in epochs if epoch.test is not None]
        tested = [epoch.test for epoch in evaluated if epoch.test is not None]
        held_out = [epoch.held_out.balanced_accuracy for epoch in evaluated if epoch.held_out is not None]
        return cls(
            loss=[epoch.loss for epoch in epochs],
            lr=[epoch.lr for epoch in epochs],
            evaluated=[epoch.epoch for epoch in evaluated],
            test_accuracy=[test.accuracy for test in tested],
            test_balanced_accuracy=[test.balanced_accuracy for test in tested],
            held_out_balanced_accuracy=held_out if len(held_out) == len(evaluated) else None,
            test_recall=[test.recall for test in tested],
            train_recall=[None if epoch.train is None else epoch.train.recall for epoch in evaluated],
        )


class Probes(Struct, frozen=True, kw_only=True):
    """What was measured per class on the way, after some of the epochs."""

    epochs: list[Count]  # from 0
    layer: list[str]  # where gradients were measured
    train_recall: list[PerClass]
    test_recall: list[PerClass]
    classification_ratio: list[PerClass]
    gradient_norm: list[PerClass]
    gradient_norm_mixed: list[PerClass]  # None for epochs that do not mix
    feature_deviation: list[PerClass]

    @property
    def per_class(self) -> dict[str, list[PerClass]]:
        """The measurements by their names."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("epochs", "layer")}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            same_length(name, getattr(self, name), "epochs", self.epochs)

    @classmethod
    def of(cls, measured: Mapping[int, Probed]) -> Probes | None:
        """What was measured after several epochs, counted from 0; None if nothing was."""
        epochs = sorted(measured)
        columns: dict[str, Any] = {
            name: [getattr(measured[epoch], name) for epoch in epochs] for name in Probed.__struct_fields__
        }
        return cls(epochs=epochs, **columns) if epochs else None

    def by_epoch(self) -> dict[int, Probed]:
        """The reverse of `of`."""
        names = Probed.__struct_fields__
        return {
            epoch: Probed(**{name: getattr(self, name)[row] for name in names}) for row, epoch in enumerate(self.epochs)
        }


class RunRecord(Struct, frozen=True, kw_only=True):
    """The content of result.json."""

    format: Literal[1] = FORMAT
    label: str  # of the method in tables
    config: RunSpec
    recipe_name: str
    recipe: Recipe  # its own name is that of the recipe it was changed from
    pretrained: PretrainedRecord | None
    data: DataRecord
    method: MethodRecord
    selections: Selections
    curves: TrainingCurves
    probes: Probes | None
    calibration: CalibrationRecord | None
    seconds: dict[str, float]
    images_per_second: float
    environment: Environment
    finished_at: datetime | None = None
    image_measures: ImageMeasures | None = None
    command: str = ""  # that made it, of those that are kept for tables

    def __post_init__(self) -> None:
        self.recipe.checked()
        classes = self.data.classes
        same_length("counts", self.data.counts, "classes", classes)
        for selected in (self.selections.last, self.selections.held_out, self.selections.oracle):
            if selected is not None:
                _check_metrics(selected.metrics, classes)
        _check_rows("test_recall", self.curves.test_recall, classes)
        _check_rows("train_recall", self.curves.train_recall, classes)
        for name, rows in (self.probes.per_class if self.probes else {}).items():
            _check_rows(name, rows, classes)


def _check_metrics(metrics: Metrics, classes: Sequence[str]) -> None:
    _check_rows("recall", [metrics.recall], classes)
    _check_rows("precision", [metrics.precision], classes)
    if metrics.confusion is not None:
        _check_rows("confusion", [*metrics.confusion, metrics.confusion], classes)


def _check_rows(name: str, rows: Iterable[Sequence[object] | None], classes: Sequence[str]) -> None:
    for row in rows:
        if row is not None:
            same_length(name, row, "classes", classes)


def same_length(name: str, values: Sequence[object], of: str, others: Sequence[object]) -> None:
    """ValueError unless both have the same length."""
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} values for {len(others)} {of}")


@dataclass(frozen=True)
class Result:
    """One run: its record and where that came from (None when never saved)."""

    record: RunRecord = field(repr=False)
    path: Path | None = None

    @property
    def label(self) -> str:
        return self.record.label

    @property
    def config(self) -> RunSpec:
        return self.record.config

    @property
    def data(self) -> DataRecord:
        return self.record.data

    @property
    def repeat(self) -> tuple[int, int]:
        """(seed, data_seed): what numbers the repeats of one setting."""
        return self.config.seed, self.config.data_seed

    @property
    def place(self) -> str:
        """Where it came from, for messages."""
        return str(self.path) if self.path is not None else f"an unsaved run of {self.label}"

    def with_probes(self, probes: Probes) -> Result:
        """The same run with what was measured of it."""
        return replace(self, record=msgspec.structs.replace(self.record, probes=probes))

    def metrics(self, selection: Selection) -> Metrics | None:
        """The metrics of one selection, None when the run does not have it."""
        selected: Selected | None = getattr(self.record.selections, selection)
        return None if selected is None else selected.metrics


def load_result(path: str | Path) -> Result:
    """The result of a finished run, from its directory or from a result.json.

    Raises:
        RunError: when it is missing, unfinished, broken or written in a format this version does not know.
    """
    path = Path(path)
    file = path / RESULT_FILE if path.is_dir() else path
    if not file.exists():
        if not (path / CONFIG_FILE).exists():
            raise no_run_at(path)
        raise RunError(
            f"{path} holds no {RESULT_FILE}: the run is not finished. Go on with: {command_text('resume', path)}"
        )
    record = read_typed(file, RunRecord, "restore it, or run the training again", check_known)
    return Result(record=record, path=file.resolve())
