"""The numbers in docs/own-images.md are those of the result files."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "results" / "own-images"
SEEDS = (0, 1, 2)
ROWS = {"ERM": "erm", "MFW": "mfw", "MFW-DRW": "mfw-drw", "auto": None}


def record(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def runs(setting: str, method: str | None) -> list[dict[str, Any]]:
    """Of each seed; without a method the ones that were chosen on the held-out images."""
    names = [method or record(f"{setting}-seed{seed}-auto")["chosen"] for seed in SEEDS]
    return [record(f"{setting}-seed{seed}-{name}") for seed, name in zip(SEEDS, names, strict=True)]


def recall(run: dict[str, Any], name: str) -> float:
    return float(run["selections"]["last"]["metrics"]["recall"][run["data"]["classes"].index(name)])


def cells(measured: list[dict[str, Any]]) -> list[str]:
    columns = [
        [run["selections"]["last"]["metrics"]["balanced_accuracy"] for run in measured],
        [recall(run, "WBC") for run in measured],
        [recall(run, "Platelets") for run in measured],
        [run["calibration"]["test"]["ece_balanced_before"] for run in measured],
        [run["calibration"]["test"]["ece_balanced"] for run in measured],
    ]
    return [f"{100 * mean(values):.1f} ± {100 * stdev(values):.1f}" for values in columns]


@pytest.mark.parametrize("setting", ["as-it-is", "cut"])
@pytest.mark.parametrize("label", ROWS)
def test_every_row_of_the_page(setting: str, label: str) -> None:
    page = (PROJECT / "docs" / "own-images.md").read_text()
    row = f"| {label} | {' | '.join(cells(runs(setting, ROWS[label])))} |"
    assert row in page, row


@pytest.mark.parametrize("setting", ["as-it-is", "cut"])
def test_auto_has_chosen_the_best_on_held_out_images(setting: str) -> None:
    for seed in SEEDS:
        compared = record(f"{setting}-seed{seed}-auto")["compared"]
        values = {row["name"]: row["held_out_balanced_accuracy"] for row in compared}
        assert len(values) == 6
        assert values[record(f"{setting}-seed{seed}-auto")["chosen"]] == max(values.values())


def test_the_rare_classes_were_cut() -> None:
    for seed in SEEDS:
        counts = record(f"cut-seed{seed}-erm")["data"]["counts"]
        assert counts == [2381, 20, 20]


def test_the_default_training_is_short() -> None:
    seconds = [run["seconds"]["total"] for run in runs("as-it-is", "mfw-drw")]
    assert max(seconds) < 300
