"""Values that JSON has no word for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Struct

from procrustean.base import RunError
from procrustean.base.json_files import read_typed, typed_json


class Kept(Struct):
    name: str
    losses: dict[int, float | None]


@pytest.mark.parametrize("name", ["cat", "b\udcffd"])
def test_names_that_are_no_text_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    written = typed_json(Kept(name, {1: 0.5, 2: float("nan")}))
    (tmp_path / "kept.json").write_bytes(written)
    assert json.loads(written) == {"name": name, "losses": {"1": 0.5, "2": None}}
    assert read_typed(tmp_path / "kept.json", Kept, "") == Kept(name, {1: 0.5, 2: None})


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize("name", ["cat", "b\\udcffd"])
def test_numbers_that_are_none_are_refused(name: str, number: str, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text(f'{{"name": "{name}", "losses": {{"1": {number}}}}}')
    with pytest.raises(RunError, match=r"kept\.json is damaged"):
        read_typed(tmp_path / "kept.json", Kept, "")
