"""What the advice is taken from."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.runs.method_advice import measured

from .scripts import PROJECT, script

RESULTS = PROJECT / "results"


@pytest.mark.skipif(not RESULTS.is_dir(), reason="results/ is not in this checkout")
def test_the_table_is_what_the_script_makes_of_the_results(tmp_path: Path) -> None:
    measurements = script("measured")
    assert measurements.main(measurements.Measurements(table=tmp_path / "measured.csv")) == 0
    made = (tmp_path / "measured.csv").read_text()
    committed = (PROJECT / "src/procrustean/runs/measured.csv").read_text()
    assert made == committed, "run python experiments/measured.py"
    assert len(made.splitlines()) == 1 + len(measured())


def test_each_setting_has_plain_training_and_every_method_once() -> None:
    for setting in {row.setting for row in measured()}:
        usual = [(row.method, row.drw) for row in measured() if row.setting == setting]
        assert ("erm", False) in usual
        assert len(set(usual)) == len(usual)
        assert all(row.seeds >= 3 for row in measured() if row.setting == setting)
