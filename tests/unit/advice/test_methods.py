"""The table of measurements says what the files say, and the advice follows the table."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from procrustean.advice import methods
from procrustean.advice.measurements import FEW_LONG_TAILED, FEW_STEP, LONG_TAILED, MEASURED, STEP, Measured
from procrustean.advice.methods import Choice, advised, nearest, worth_comparing
from procrustean.data import long_tailed_counts, step_counts
from procrustean.methods import METHODS, option_defaults

PROJECT = Path(__file__).resolve().parents[3]


def name(row: Measured) -> str:
    return f"{row.setting.name}, {Choice(row.method, row.drw, row.options).name}"


@pytest.mark.parametrize("row", MEASURED, ids=name)
def test_the_table_holds_what_the_result_files_hold(row: Measured) -> None:
    files = sorted((PROJECT / row.where).glob("*.json"))
    if not files:
        pytest.skip(f"{row.where} is not in this checkout")
    values = []
    for path in files:
        record = json.loads(path.read_text())
        data, method = record["data"], record["method"]
        sizes = (max(data["counts"]), min(data["counts"]))
        if tuple(record["config"]["options"].items()) != row.options or record["config"]["data_seed"] != 0:
            continue
        if (method["name"], bool(method["options"].get("drw")), data["kind"], sizes, record["recipe"]["net"]) == (
            row.method,
            row.drw,
            row.setting.kind,
            (row.setting.largest, row.setting.smallest),
            row.setting.net,
        ):
            values.append(100 * record["selections"]["last"]["metrics"]["balanced_accuracy"])
    assert len(values) == row.seeds
    assert mean(values) == pytest.approx(row.value, abs=0.06)


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
        ([90, 100, 6, 5], FEW_STEP),
        ([150, 60, 25, 10], FEW_LONG_TAILED),
        ([7000, 3000, 1200, 600, 250, 100], LONG_TAILED),
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
    assert 3 <= len(set(choices)) == len(choices) <= 8
    assert len([choice for choice in choices if not choice.options]) <= 6


def test_settings_are_compared_where_they_were_measured_to_be_better() -> None:
    choices = worth_comparing([90, 100, 6, 5])
    assert [choice.name for choice in choices[-2:]] == ["ldam-drw-max-margin-0.3", "mfw-drw-alpha-0.2"]
    assert Choice("ldam", True, (("max_margin", 0.8),)) not in choices  # was worse
    assert not any(choice.options for choice in worth_comparing([2381, 214, 209]))  # nothing is measured there
    for choice in choices:
        assert {name for name, _ in choice.options} <= set(option_defaults(choice.method))
