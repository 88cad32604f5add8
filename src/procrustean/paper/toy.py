"""The paper's illustration: two large and two small classes, features in the plane, ERM beside MFW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procrustean.base.errors import ConfigError, RunError
from procrustean.base.progress import Reporter
from procrustean.base.table_formats import Table
from procrustean.records.groups import group_results
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import RunSpec
from procrustean.report.comparison_table import comparison
from procrustean.report.figures.draw import draw_figure
from procrustean.runs.many_runs import fit_many

#: Sec. 4 of the paper; it does not name its four classes, so they were fixed before anything was trained.
SETTING: dict[str, Any] = {
    "source": "cifar10",
    "classes": ["airplane", "automobile", "bird", "cat"],
    "imbalance": "step",
    "rho": 100.0,
    "net": "resnet32-2d",
    "epochs": 200,
    # Two numbers carry all that the head sees: bf16 would round them visibly.
    "precision": "fp32",
}
METHODS: tuple[dict[str, Any], ...] = (
    {"method": "erm"},
    {"method": "mfw", "options": {"alpha": 2.0, "major_strength": 0.5}},
)
#: The epochs of 200 whose features the paper shows.
EPOCHS = (20, 60, 120, 160)


@dataclass(frozen=True)
class Outcome:
    """What the two runs came to."""

    table: Table
    figures: list[Path]


def run_toy(output: Path, *, reporter: Reporter, **changes: Any) -> Outcome:
    """Train ERM and MFW, unless they are trained already, and draw their features along the epochs."""
    changes = {name: value for name, value in changes.items() if value is not None}
    setting = {**SETTING, **changes}
    if setting["source"] != SETTING["source"] and "classes" not in changes:
        raise ConfigError(
            f"source {setting['source']!r} received without classes, and {', '.join(SETTING['classes'])} are those of "
            f"{SETTING['source']}; give four or fewer of its own with --classes, the large half first"
        )
    setting.setdefault("features_at", features_at(setting["epochs"]))
    configs = []
    for method in METHODS:
        config = RunSpec.from_json({**setting, **method}, origin="the toy")
        configs.append(RunSpec.from_json({**config.to_json(), "run_dir": output / config.slug}))
    outcomes = fit_many(configs, reporter=reporter)
    for outcome in outcomes:
        if outcome.error is not None:
            raise RunError(f"{outcome.path} failed: {outcome.error}") from outcome.error
    results = [load_result(outcome.path) for outcome in outcomes]
    figures = draw_figure("plane", results, output, epochs=setting["features_at"], stem="toy")
    return Outcome(comparison(group_results(results)), figures)


def features_at(epochs: int) -> list[int]:
    """The paper's epochs 20, 60, 120 and 160 of 200, at the same shares of another length: four from four epochs on.

    >>> features_at(200), features_at(20), features_at(4)
    ([20, 60, 120, 160], [2, 6, 12, 16], [1, 2, 3, 4])
    """
    return sorted({max(1, math.ceil(epoch * epochs / 200)) for epoch in EPOCHS})
