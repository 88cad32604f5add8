"""A network trained on a small folder of coloured pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coloured_pictures import colours
from procrustean import fit

__all__ = ["colours"]


@pytest.fixture(scope="session")
def run(colours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained network with calibration."""
    folder = tmp_path_factory.mktemp("own") / "run"
    return fit(
        str(colours), method="erm", drw=True, epochs=20, device="cpu", precision="fp32", run_dir=str(folder)
    ).path


@pytest.fixture
def call(program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return program
