"""Sources are loaded once for all runs that name the same, as far as memory allows."""

from __future__ import annotations

from typing import Any

import pytest

from procrustean.base import DataError
from procrustean.data import Splits
from procrustean.records import RunSpec
from procrustean.runs import image_loading as loading
from procrustean.runs.image_loading import KEPT, Sources


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were tried, of which those that begin with "bad" cannot be read."""
    tried: list[str] = []

    def load(source: str, **settings: Any) -> Splits:
        tried.append(source)
        if source.startswith("bad"):
            raise DataError(f"{source} cannot be read")
        return Splits.__new__(Splits)

    monkeypatch.setattr(loading, "load_source", load)
    return tried


def config_of(source: str) -> RunSpec:
    return RunSpec.from_json({"source": f"{source}.npz", "method": "erm"})


def test_the_sources_used_last_are_kept(asked: list[str]) -> None:
    sources = Sources()
    names = [f"good{number}" for number in range(KEPT + 1)]
    for name in names[:KEPT] * 2:
        sources(config_of(name))
    assert len(asked) == KEPT
    for name in names:
        sources(config_of(name))
    assert len(asked) == KEPT + 1
    sources(config_of(names[0]))
    assert asked[-1] == "good0.npz"


def test_a_source_that_cannot_be_read_is_tried_once_however_many_there_are(asked: list[str]) -> None:
    sources = Sources()
    names = [f"bad{number}" for number in range(KEPT + 2)]
    for name in names * 2:
        with pytest.raises(DataError, match=f"{name}.npz cannot be read"):
            sources(config_of(name))
    assert asked == [f"{name}.npz" for name in names]
