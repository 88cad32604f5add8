"""The record of a run: what identifies it when it begins, what it found when it ends."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.base.own_code import file_code
from procrustean.base.version import __version__
from procrustean.engine.device import machine
from procrustean.engine.optimizer import swa_begins
from procrustean.records.identity import Identity
from procrustean.records.run_record import (
    CalibrationRecord,
    DataRecord,
    Environment,
    ImageMeasures,
    MetaRecord,
    MethodRecord,
    PretrainedRecord,
    Probes,
    RunRecord,
    ScoresRecord,
    Selections,
    StageRecord,
    TrainingCurves,
)

if TYPE_CHECKING:
    from procrustean.data.imbalance import MetaSet
    from procrustean.engine.prepared_run import Prepared
    from procrustean.engine.training import Training
    from procrustean.methods.method import Method

#: Parts of the identity that the method decides.
OF_THE_METHOD = ("method", "options", "stages", "plain_network")


def identity_of(prepared: Prepared) -> Identity:
    """What must not change between the parts of an interrupted run."""
    data, config = prepared.data, prepared.config
    return Identity(
        classes=list(data.train.classes),
        counts=[int(n) for n in data.counts],
        split_hash=data.split_hash,
        source_hash=data.source_hash,
        images=prepared.splits.images_by_class,
        method=prepared.method.label,
        options=prepared.options,
        stages=[stage.name for stage in prepared.method.stages],
        seed=config.seed,
        recipe=prepared.recipe,
        precision=prepared.placement.precision,
        pretrained=None if prepared.pretrained is None else prepared.pretrained.sha256,
        plain_network=file_code(config.method) is not None and _is_plain(prepared.method),
    )


def _is_plain(method: Method) -> bool:
    """Whether the network is one that can be built without the method: weights are all that a run adds to it."""
    return method.head is None and all(stage.reshape is None for stage in method.stages)


def make_record(
    prepared: Prepared,
    training: Training,
    calibration: CalibrationRecord | None,
    measures: ImageMeasures | None = None,
) -> RunRecord:
    """The content of result.json."""
    position, weights = training.position, prepared.pretrained
    seconds = {name: round(value, 3) for name, value in position.seconds.items()}
    total = round(sum(value for name, value in seconds.items() if name != "first_step"), 3)
    shown = sum(training.epochs) * len(prepared.data.train)
    assert position.last is not None
    return RunRecord(
        label=prepared.method.label,
        finished_at=datetime.now(UTC),
        config=prepared.config,
        recipe_name=prepared.recipe_name,
        recipe=prepared.recipe,
        pretrained=None if weights is None else PretrainedRecord(path=str(weights.path), sha256=weights.sha256),
        data=_data(prepared, training),
        method=_method(prepared, training),
        selections=Selections(last=position.last, held_out=position.held_out, oracle=position.oracle),
        curves=TrainingCurves.of(training.records),
        probes=Probes.of({epoch.epoch: epoch.probe for epoch in training.records if epoch.probe is not None}),
        calibration=calibration,
        image_measures=measures,
        seconds={"total": total, **seconds},
        images_per_second=round(shown / max(position.seconds["train"], 1e-9), 1),
        environment=_environment(prepared, training),
    )


def _data(prepared: Prepared, training: Training) -> DataRecord:
    data = prepared.data
    meta = next((images.chosen for images in training.meta if images is not None), None)
    height, width, channels = data.train.images.shape[1:]
    return DataRecord(
        source=prepared.splits.name,
        note=prepared.splits.note,
        classes=list(data.train.classes),
        counts=[int(n) for n in data.counts],
        kind=data.kind,
        rho=float(data.rho),
        split_hash=data.split_hash,
        source_hash=data.source_hash,
        train=len(data.train),
        test=len(data.test),
        image_shape=(height, width, channels),
        held_out=0 if data.held_out is None else len(data.held_out),
        held_out_counts=[] if data.held_out is None else [int(n) for n in data.held_out.counts],
        left_out_of_hold_out=list(data.left_out_classes),
        meta=None if meta is None else _meta(meta),
    )


def _meta(meta: MetaSet) -> MetaRecord:
    images = len(meta.images)
    return MetaRecord(images=images, per_class=meta.per_class, spare=meta.spare, train=images - meta.spare)


def _method(prepared: Prepared, training: Training) -> MethodRecord:
    config, stages = prepared.config, prepared.method.stages
    own, objective = file_code(config.method), stages[-1].objective
    averaged = config.average in ("swa", "both")
    return MethodRecord(
        name=config.method if own is None else own.plain,
        sha256=None if own is None else own.sha256,
        scores=None
        if own is None
        else ScoresRecord(corrected=shifts_scores(objective), scale=float(scale_of_scores(objective))),
        options=prepared.options,
        stages=[
            StageRecord(name=stage.name, epochs=epochs) for stage, epochs in zip(stages, training.epochs, strict=True)
        ],
        finish=training.finished,
        parameters=sum(p.numel() for p in training.net.parameters()),
        swa_first_epoch=swa_begins(objective, training.epochs[-1], config.swa_from) if averaged else None,
    )


def _environment(prepared: Prepared, training: Training) -> Environment:
    placement = prepared.placement
    return Environment(
        device=str(placement.device),
        machine=machine(placement.device),
        precision=placement.precision,
        reason=placement.reason,
        engine=prepared.engine.name,
        engine_reason=prepared.engine.reason,
        kernels="own" if prepared.engine.kernels else "library",
        images=training.stores.where,
        torch=torch.__version__,
        python=platform.python_version(),
        procrustean=__version__,
        platform=platform.platform(),
    )
