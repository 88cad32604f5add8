"""The record of a run: what identifies it when it begins, what it found when it ends."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import torch

from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.base.code_files import file_code
from procrustean.engine.device import machine
from procrustean.engine.optimizer import swa_begins
from procrustean.records.epoch_curves import probes_of, training_curves

if TYPE_CHECKING:
    from procrustean.engine.prepared import (
        Prepared,
    )
    from procrustean.engine.training import Training
    from procrustean.methods.base import Method

FORMAT = 1
#: Parts of the identity that the method decides.
OF_THE_METHOD = ("method", "options", "stages", "plain_network")


def identity_of(prepared: Prepared) -> dict[str, Any]:
    """What must not change between the parts of an interrupted run."""
    data = prepared.data
    return {
        "classes": list(data.train.classes),
        "counts": [int(n) for n in data.counts],
        "split_hash": data.split_hash,
        "source_hash": data.source_hash,
        "images": prepared.splits.images_by_class,
        "method": prepared.method.label,
        "options": prepared.options,
        "stages": [stage.name for stage in prepared.method.stages],
        "seed": prepared.config.seed,
        "recipe": prepared.recipe.to_json(),
        "precision": prepared.placement.precision,
        **({} if prepared.pretrained is None else {"pretrained": prepared.pretrained.sha256}),
        **({} if file_code(prepared.config.method) is None else {"plain_network": _is_plain(prepared.method)}),
    }


def _is_plain(method: Method) -> bool:
    """Whether the network is one that can be built without the method: weights are all that a run adds to it."""
    return method.head is None and all(stage.reshape is None for stage in method.stages)


def make_result(prepared: Prepared, training: Training) -> dict[str, Any]:
    """The content of result.json."""
    data, position, records = prepared.data, training.position, training.records
    seconds = {name: round(value, 3) for name, value in position.seconds.items()}
    shown = sum(training.epochs) * len(data.train)
    return {
        "format": FORMAT,
        "label": prepared.method.label,
        "status": "complete",
        "finished_at": datetime.now(UTC).isoformat(),
        "config": prepared.config.to_json(),
        "recipe": {
            **prepared.recipe.to_json(),
            "name": prepared.recipe_name,
            "changed_from": prepared.recipe.name,
        },
        "pretrained": None if prepared.pretrained is None else prepared.pretrained.to_json(),
        "data": {
            "source": prepared.splits.name,
            "note": prepared.splits.note,
            "classes": list(data.train.classes),
            "counts": [int(n) for n in data.counts],
            "kind": data.kind,
            "rho": float(data.rho),
            "split_hash": data.split_hash,
            "source_hash": data.source_hash,
            "train": len(data.train),
            "test": len(data.test),
            "image_shape": list(data.train.images.shape[1:]),
            "held_out": 0 if data.held_out is None else len(data.held_out),
            "held_out_counts": [] if data.held_out is None else [int(n) for n in data.held_out.counts],
            "left_out_of_hold_out": list(data.left_out_classes),
            "meta": next((m.chosen.to_json() for m in training.meta if m is not None), None),
        },
        "method": {
            **_name_of(prepared.config.method),
            **_scores_of(prepared),
            "options": prepared.options,
            "stages": [
                {"name": stage.name, "epochs": epochs}
                for stage, epochs in zip(prepared.method.stages, training.epochs, strict=True)
            ],
            "finish": training.finished,
            **_averaged(prepared, training),
            "parameters": sum(p.numel() for p in training.net.parameters()),
        },
        "selections": {"last": position.last, **position.best},
        "curves": training_curves(records),
        "probes": probes_of(records),
        "seconds": {"total": round(sum(v for k, v in seconds.items() if k != "first_step"), 3), **seconds},
        "images_per_second": round(shown / max(position.seconds["train"], 1e-9), 1),
        "environment": environment(prepared, training),
    }


def _averaged(prepared: Prepared, training: Training) -> dict[str, int]:
    """Where the mean over epochs begins, of a run that keeps one."""
    config = prepared.config
    if config.average not in ("swa", "both"):
        return {}
    return {"swa_first_epoch": swa_begins(prepared.method.stages[-1].objective, training.epochs[-1], config.swa_from)}


def _name_of(method: str) -> dict[str, str]:
    """The method's name as it was given and, of one in a file, the hash of its code."""
    own = file_code(method)
    return {"name": method} if own is None else {"name": own.plain, "sha256": own.sha256}


def _scores_of(prepared: Prepared) -> dict[str, Any]:
    """What the loss of a method in a file makes of the scores: a model is used without importing the file."""
    if file_code(prepared.config.method) is None:
        return {}
    objective = prepared.method.stages[-1].objective
    return {"scores": {"corrected": shifts_scores(objective), "scale": scale_of_scores(objective)}}


def environment(prepared: Prepared, training: Training) -> dict[str, Any]:
    """Versions and machine."""
    from procrustean.base.version import __version__

    placement = prepared.placement
    return {
        "device": str(placement.device),
        "machine": machine(placement.device),
        "precision": placement.precision,
        "reason": placement.reason,
        "engine": prepared.engine.name,
        "engine_reason": prepared.engine.reason,
        "kernels": "own" if prepared.engine.kernels else "library",
        "images": training.stores.where,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "procrustean": __version__,
        "platform": platform.platform(),
    }
