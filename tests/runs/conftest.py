"""A small folder of coloured pictures, and the program beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coloured_pictures import colours as colours


@pytest.fixture
def call(program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return program
