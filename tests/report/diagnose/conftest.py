"""Records of runs with constructed measurements."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.balance.metrics import metrics_from_confusion
from procrustean.records import Curves, curves_of
from procrustean.records.groups import Result

COUNTS = [100, 80, 10, 5]
AT = (10, 20, 40, 80, 100)


def make_record(
    *,
    train: Any = 1.0,
    test: Any = 0.9,
    ratio: Any = 1.0,
    gradient: Any = 0.1,
    mixed: Any = None,
    layers: tuple[str, ...] = (),
    deviation: Any = 0.2,
    at: tuple[int, ...] = AT,
    epochs: int = 100,
    counts: list[int] | None = None,
    classes: list[str] | None = None,
    label: str = "ERM",
    method: str = "erm",
    options: dict[str, Any] | None = None,
    kind: str = "step",
    rho: float = 20.0,
    source: str = "digits",
    net: str = "small",
    seed: int = 0,
    accuracy: float | None = None,
    **config: Any,
) -> dict[str, Any]:
    """A result whose curves are anything that broadcasts to [epochs, classes]; `mixed` is nan in unmixed epochs."""
    counts = list(COUNTS if counts is None else counts)
    classes = [f"class {i}" for i in range(len(counts))] if classes is None else classes
    shape = (len(at), len(counts))

    def rows(values: Any) -> list[list[float | None]]:
        full = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
        return [[None if np.isnan(v) else float(v) for v in row] for row in full]

    images = 1000
    correct = [round(images * v) for v in ([accuracy] * len(counts) if accuracy is not None else rows(test)[-1])]
    confusion = np.zeros((len(counts), len(counts)), int)
    for index, right in enumerate(correct):
        confusion[index, index] += right
        confusion[index, index - 1] += images - right
    last = {"epoch": epochs - 1, "metrics": metrics_from_confusion(confusion, counts)}
    return {
        "format": 1,
        "label": label,
        "status": "complete",
        "config": {"source": source, "imbalance": kind, "rho": rho, "seed": seed, "data_seed": 0, "net": net, **config},
        "recipe": {"name": "paper", "epochs": epochs, "net": net},
        "data": {
            "source": source,
            "classes": classes,
            "counts": counts,
            "kind": kind,
            "rho": rho,
            "source_hash": f"hash of {source}",
        },
        "method": {"name": method, "options": options or {}, "stages": [{"name": "train", "epochs": epochs}]},
        "selections": {"last": last, "held_out": None, "oracle": last},
        "curves": {"loss": [], "evaluated": []},
        "probes": {
            "epochs": [epoch - 1 for epoch in at],
            "layer": list(layers or ["group2"] * len(at)),
            "train_recall": rows(train),
            "test_recall": rows(test),
            "classification_ratio": rows(ratio),
            "gradient_norm": rows(gradient),
            "gradient_norm_mixed": [
                row if any(value is not None for value in row) else None
                for row in rows(np.nan if mixed is None else mixed)
            ],
            "feature_deviation": rows(deviation),
        },
    }


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    return make_record


@pytest.fixture
def curves() -> Callable[..., Curves]:
    return lambda **fields: curves_of(make_record(**fields))


@pytest.fixture
def result() -> Callable[..., Result]:
    return lambda **fields: Result(make_record(**fields))


@pytest.fixture
def unevenly_tested() -> Callable[[Result], Result]:
    """The same run, tested on classes of different sizes."""

    def change(result: Result) -> Result:
        result.record["selections"]["last"]["metrics"]["headline"] = "balanced_accuracy"
        return result

    return change


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Result]:
    """A result with a folder of its own, and features in it."""

    def write(name: str, features: dict[int, dict[str, Any]] | None = None, **fields: Any) -> Result:
        folder = tmp_path / name
        folder.mkdir()
        made = make_record(**fields)
        (folder / "result.json").write_text(json.dumps(made))
        for epoch, arrays in (features or {}).items():
            np.savez(folder / f"features-{epoch:06d}.npz", **arrays)
        return Result(made, folder / "result.json")

    return write
