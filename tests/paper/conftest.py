"""Results made up for a setting, and a small definition of tables."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_records import made, written
from probed_runs import result as result
from probed_runs import saved as saved
from probed_runs import unevenly_tested as unevenly_tested
from procrustean.balance.metrics import Metrics, metrics_from_confusion
from procrustean.data.recipes import recipe_label
from procrustean.methods.make import option_defaults
from procrustean.paper import Definitions, Store, read_definitions
from procrustean.records import RunSpec
from procrustean.records.run_record import RunRecord
from procrustean.runs.preparing import recipe_of

TABLES: dict[str, Any] = {
    "columns": {
        "tail": {"source": "cifar10", "imbalance": "long_tailed", "rho": 100},
        "step": {"source": "cifar10", "imbalance": "step", "rho": 100},
    },
    "tables": {
        "small": {
            "title": "A small table",
            "ranked": True,
            "base": {"evaluate_every": 4},
            "columns": ["tail", "step"],
            "rows": {"ERM": {"method": "erm"}, "MFW": {"method": "mfw"}, "long": {"method": "erm", "epochs": 300}},
        },
        "other": {
            "columns": ["tail"],
            "base": {"evaluate_every": 4},
            "rows": {"again": {"method": "mfw", "epochs": 300, "options": {"alpha": 1}}, "new": {"method": "cdt"}},
        },
        "readings": {
            "judged": True,
            "base": {"method": "mfw", "hold_out_from": "source", "hold_out": 500},
            "columns": ["tail", "step"],
            "rows": {
                "geometric": {"options": {"std": "geometric"}},
                "arithmetic": {"options": {"std": "arithmetic"}},
                "batch": {"options": {"draw": "batch"}},
            },
        },
    },
    "suites": {"both": {"title": "Two parts", "parts": [{"table": "other"}, {"table": "small", "rows": ["ERM"]}]}},
}


@pytest.fixture
def tables() -> dict[str, Any]:
    return copy.deepcopy(TABLES)


@pytest.fixture
def definitions() -> Definitions:
    return read_definitions(TABLES, origin="the test")


def made_metrics(accuracy: float, top5: float | None = None) -> Metrics:
    """Of ten classes with a hundred test images each."""
    correct = [round(1000 * accuracy) // 10 + (c < round(1000 * accuracy) % 10) for c in range(10)]
    confusion = [[0] * 10 for _ in range(10)]
    for label, right in enumerate(correct):
        confusion[label][label] += right
        confusion[label][(label + 1) % 10] += 100 - right
    counts = [5000] * 5 + [50] * 5
    return metrics_from_confusion(np.array(confusion), counts, top5_correct=round(1000 * (top5 or accuracy)))


def made_record(
    config: RunSpec, last: float, oracle: float, *, held_out: float | None = None, judged: float | None = None
) -> RunRecord:
    """A result of these settings with these accuracies."""
    options = {**option_defaults(config.method), **config.options, **({"drw": True} if config.drw else {})}

    def selection(accuracy: float) -> dict[str, Any]:
        return {"epoch": 9, "metrics": made_metrics(accuracy)}

    return made(
        {
            "label": config.method,
            "config": config.to_json(),
            "recipe_name": recipe_label(config.recipe, recipe_of(config), config.source),
            "recipe": recipe_of(config).to_json(),
            "data": {
                "source": config.source,
                "classes": list("abcdefghij"),
                "counts": [5000] * 5 + [50] * 5,
                "kind": config.imbalance,
                "rho": config.rho,
                "held_out": int(10 * (config.hold_out or 0)),
            },
            "method": {"name": config.method, "options": options},
            "selections": {
                "last": selection(last),
                "held_out": None if held_out is None else selection(held_out),
                "oracle": selection(oracle),
            },
            "curves": {"held_out_balanced_accuracy": None if judged is None else [0.1, judged]},
        }
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """`write(config, last, oracle)` puts a result into the results folder."""

    def put(config: RunSpec, last: float, oracle: float, **more: Any) -> Path:
        path = tmp_path / "results" / f"{config.slug}.json"
        written(made_record(config, last, oracle, **more), path)
        return path

    return put


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[..., Store]:
    def make(said: list[str] | None = None) -> Store:
        return Store(tmp_path / "results", tmp_path / "runs", (said if said is not None else []).append)

    return make
