from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_records import made, written
from procrustean.balance.metrics import Metrics, metrics_from_confusion
from procrustean.records.run_record import Result, RunRecord

STEP_COUNTS = [1000] * 5 + [20] * 5


def make_record(
    *,
    label: str = "ERM",
    method: str = "erm",
    options: dict[str, Any] | None = None,
    seed: int = 0,
    data_seed: int = 0,
    classes: list[str] | None = None,
    counts: list[int] | None = None,
    recall: float | list[float] = 0.5,
    test_counts: list[int] | None = None,
    source: str = "digits",
    source_hash: str | None = None,
    kind: str = "step",
    rho: float = 50.0,
    hold_out: int = 0,
    held_out_recall: float | None = None,
    net: str = "small",
    recipe: str = "paper",
    epochs: int = 20,
    evaluated: list[int] | None = None,
    **config: Any,
) -> RunRecord:
    """A complete result with the recalls asked for; images classified wrongly go to the first class."""
    counts = list(STEP_COUNTS if counts is None else counts)
    classes = [f"class {i}" for i in range(len(counts))] if classes is None else classes
    test_counts = [100] * len(counts) if test_counts is None else test_counts

    def metrics(recalls: list[float]) -> Metrics:
        confusion = np.zeros((len(counts), len(counts)), int)
        for index, (share, images) in enumerate(zip(recalls, test_counts, strict=True)):
            correct = round(share * images)
            confusion[index, index] += correct
            confusion[index, 0 if index else len(counts) - 1] += images - correct
        return metrics_from_confusion(confusion, counts, top5_correct=sum(test_counts))

    recalls = [recall] * len(counts) if isinstance(recall, float) else recall
    last = {"epoch": epochs - 1, "metrics": metrics(recalls)}
    oracle = {"epoch": epochs // 2, "metrics": metrics([min(1.0, share + 0.05) for share in recalls])}
    held_out = None
    if held_out_recall is not None:
        held_out = {"epoch": epochs // 2, "metrics": metrics([held_out_recall] * len(counts))}
    evaluated = list(range(epochs)) if evaluated is None else evaluated
    rng = np.random.default_rng([seed, data_seed, len(label)])
    speed = np.array(counts) / max(counts) + 0.05 * rng.random(len(counts))
    progress = [(1 - np.exp(-(epoch + 1) * (0.08 + 0.9 * speed))).tolist() for epoch in evaluated]
    return made(
        {
            "label": label,
            "config": {
                "source": source,
                "imbalance": kind,
                "rho": rho,
                "data_seed": data_seed,
                "hold_out": hold_out,
                "net": net,
                "method": method,
                "options": options or {},
                "drw": "DRW" in label,
                "recipe": recipe,
                "epochs": epochs,
                "seed": seed,
                "run_dir": f"runs/{label}-{seed}-{data_seed}",
                **config,
            },
            "recipe": {"name": recipe, "epochs": epochs, "batch_size": 128, "lr": 0.1},
            "data": {
                "source": source,
                "classes": classes,
                "counts": counts,
                "kind": kind,
                "rho": rho,
                "split_hash": f"{data_seed:064x}",
                "source_hash": source_hash or hashlib.sha256(os.fsencode(source)).hexdigest(),
                "train": sum(counts),
                "test": sum(test_counts),
                "held_out": hold_out * len(counts),
            },
            "method": {"name": method, "options": options or {}, "stages": [{"name": "train", "epochs": epochs}]},
            "selections": {"last": last, "held_out": held_out, "oracle": oracle},
            "curves": {
                "loss": [1 / (epoch + 1) for epoch in range(epochs)],
                "lr": [0.1] * epochs,
                "evaluated": evaluated,
                "train_recall": progress,
            },
        }
    )


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    return make_record


@pytest.fixture
def result() -> Callable[..., Result]:
    """Makes results that were never saved."""
    return lambda **fields: Result(make_record(**fields))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run directory with its result.json and gives its path."""

    def write(name: str = "run", **fields: Any) -> Path:
        written(make_record(**fields), tmp_path / name / "result.json")
        return tmp_path / name

    return write
