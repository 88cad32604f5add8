"""Launchers of several processes for one training: every process says that there are too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.records import RunSpec
from procrustean.runs import fit, fit_many, tune
from procrustean.runs.train_api import resume

CALLS: dict[str, Callable[[RunSpec], object]] = {
    "fit": fit,
    "resume": lambda config: resume(config.run_dir or ""),
    "fit_many": lambda config: fit_many([config]),
    "fit_many in processes": lambda config: fit_many([config], processes=1),
    "tune": lambda config: tune(
        replace(config, method="focal", hold_out=2), {"gamma": [1.0]}, Path(config.run_dir or "")
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("rank", [0, 1])
def test_every_rank_is_refused_before_anything_is_touched(
    rank: int, name: str, npz: Path, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunError, match="WORLD_SIZE = 2 received, but a run is trained by one process; start"):
        CALLS[name](RunSpec(source=str(npz), **tiny, run_dir=tmp_path / "run"))
    assert sorted(tmp_path.iterdir()) == before


def test_a_launcher_of_one_process_is_as_good_as_none(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert fit(str(npz), **tiny, run_dir=tmp_path / "run").record.selections.last.epoch == 2
