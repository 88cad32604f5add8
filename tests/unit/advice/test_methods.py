"""The table of measurements says what the files say, and the advice follows the table."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from procrustean.advice import methods
from procrustean.advice.measurements import DIGITS, LONG_TAILED, MEASURED, STEP, Measured
from procrustean.advice.methods import Choice, advised, nearest, worth_comparing
from procrustean.data import long_tailed_counts, step_counts
from procrustean.methods import METHODS, option_defaults

PROJECT = Path(__file__).resolve().parents[3]


def name(row: Measured) -> str:
    return f"{row.setting.name}, {row.name}"


@pytest.mark.parametrize("row", [row for row in MEASURED if row.where.startswith("results/")], ids=name)
def test_the_table_holds_what_the_result_files_hold(row: Measured) -> None:
    values = []
    for path in sorted((PROJECT / row.where).glob("*.json")):
        record = json.loads(path.read_text())
        if (
            (record["method"]["name"], bool(record["method"]["options"].get("drw"))) == (row.method, row.drw)
            and record["data"]["kind"] == row.setting.kind
            and record["recipe"]["net"] == row.setting.net
        ):
            assert (max(record["data"]["counts"]), min(record["data"]["counts"])) == (
                row.setting.largest,
                row.setting.smallest,
            )
            values.append(100 * record["selections"]["last"]["metrics"]["balanced_accuracy"])
    assert len(values) == row.seeds
    assert mean(values) == pytest.approx(row.value, abs=0.051)


def test_the_table_holds_what_the_page_of_the_methods_says() -> None:
    page = (PROJECT / "docs" / "methods.md").read_text()
    labels = {"erm": "ERM", "focal": "Focal", "class_balanced": "CB", "ldam": "LDAM", "mfw": "MFW"}
    for row in MEASURED:
        if row.where == "docs/methods.md":
            label = labels[row.method] + (("-DRW" if row.method != "mfw" else " w/ DRW") if row.drw else "")
            line = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
            assert f"{row.value:.1f} ±" in line.split("|")[2]


def test_every_measured_method_exists() -> None:
    for row in MEASURED:
        assert row.method in METHODS
        assert not row.drw or "drw" in option_defaults(row.method)


@pytest.mark.parametrize(
    ("counts", "setting"),
    [
        (long_tailed_counts(5000, 10, 100), LONG_TAILED),
        (step_counts(5000, 10, 100), STEP),
        ([2381, 214, 209], STEP),
        ([90, 100, 6, 5], DIGITS),
        ([700, 300, 120, 60, 25, 10], LONG_TAILED),
    ],
)
def test_the_nearest_setting(counts: list[int], setting: object) -> None:
    assert nearest(counts) is setting


def test_the_advice_is_the_best_of_the_nearest_setting() -> None:
    found = advised(step_counts(5000, 10, 100))
    assert found.choice == Choice("mfw", True)
    assert "79.6 % against 61.6 %" in found.why
    assert "results/cifar10-rho100" in found.why
    assert advised([90, 100, 6, 5]).choice == Choice("ldam", True)


def test_a_new_measurement_changes_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    better = Measured(STEP, "focal", True, 99.0, 3, "results/new")
    monkeypatch.setattr(methods, "MEASURED", (*MEASURED, better))
    assert advised([5000, 5000, 50, 50]).choice == Choice("focal", True)


def test_near_equal_classes_need_no_correction() -> None:
    found = advised([500, 400, 300])
    assert found.choice == Choice("erm", False)
    assert "near equal" in found.why


@pytest.mark.parametrize("counts", [[500, 400], [5000, 50], [90, 100, 6, 5], [700, 300, 120, 60, 25, 10]])
def test_what_is_worth_comparing(counts: list[int]) -> None:
    choices = worth_comparing(counts)
    assert choices[0] == advised(counts).choice
    assert Choice("erm", False) in choices[:2]
    assert 3 <= len(set(choices)) == len(choices) <= 6
