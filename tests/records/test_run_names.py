"""Names that tell the runs of a fleet apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.records import RunSpec
from procrustean.records.run_labels import differences


def test_settings_that_differ_are_named() -> None:
    runs = [RunSpec("digits", method="mfw", lr=lr) for lr in (0.1, 0.2)]
    assert differences([*runs, RunSpec("digits", method="erm")]) == ["lr=0.1", "lr=0.2", ""]


@pytest.mark.parametrize(("name", "values"), [("evaluate_every", (1, 5)), ("lr", (0.1, 0.10000001))])
def test_runs_that_would_be_called_the_same_are_named_by_their_folders(name: str, values: tuple[float, float]) -> None:
    runs = [RunSpec("digits", run_dir=Path(f"runs/{value}"), **{name: value}) for value in values]
    found = differences(runs)
    assert found[0] != found[1]
    assert [text.endswith(str(run.run_dir)) for text, run in zip(found, runs, strict=True)] == [True, True]
    unplaced = [RunSpec("digits", **{name: value}) for value in values]
    assert [text.endswith(run.slug) for text, run in zip(differences(unplaced), unplaced, strict=True)] == [True, True]
