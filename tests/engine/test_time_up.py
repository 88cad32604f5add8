"""Many runs in a limited time: none begins when it is up, those in progress save themselves, another call goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from procrustean.records import RunSpec
from procrustean.runs import fit_many
from saved_states import saved_states

Same = Callable[[Path, Path], None]


def configs(npz: Path, folder: Path, tiny: dict[str, Any]) -> list[RunSpec]:
    return [RunSpec(str(npz), **tiny, seed=seed, run_dir=folder / f"seed{seed}") for seed in range(3)]


def test_stopped_in_time_and_gone_on(npz: Path, tmp_path: Path, tiny: dict[str, Any], same_run: Same) -> None:
    whole = fit_many(configs(npz, tmp_path / "whole", tiny))
    asked = count()
    cut = fit_many(configs(npz, tmp_path / "cut", tiny), width=2, time_up=lambda: next(asked) > 12)
    assert [(outcome.record, outcome.error) for outcome in cut] == [(None, None)] * 3
    begun = [bool(saved_states(outcome.path)) for outcome in cut]
    assert begun == [True, True, False]
    for one, other in zip(fit_many(configs(npz, tmp_path / "cut", tiny)), whole, strict=True):
        same_run(one.path, other.path)
