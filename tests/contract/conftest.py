"""Short runs of methods on a few digits, trained once for all tests of this folder."""

from __future__ import annotations

from typing import Any

import pytest

from procrustean.runs import FinishedRun, fit

SETTINGS: dict[str, Any] = {
    "classes": ("0", "1", "2", "3"), "imbalance": "step", "rho": 10, "epochs": 4, "batch_size": 64,
    "hold_out": 3, "device": "cpu", "precision": "fp32",
}  # fmt: skip


@pytest.fixture(scope="session")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FinishedRun]:
    """Runs that nothing interrupted, by method, as they are asked for."""
    folder = tmp_path_factory.mktemp("whole")

    class Runs(dict[str, FinishedRun]):
        def __missing__(self, name: str) -> FinishedRun:
            self[name] = fit("digits", **SETTINGS, method=name, run_dir=folder / name)
            return self[name]

    return Runs()
