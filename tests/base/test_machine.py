from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.base import machine


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 8), ("max 100000\n", 8), ("200000 100000\n", 2), ("10000 100000\n", 1)]
)
def test_what_a_container_may_use_counts(
    limit: str | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(machine, "LIMIT", tmp_path / "cpu.max")
    if limit is not None:
        (tmp_path / "cpu.max").write_text(limit)
    assert machine.usable_cores() == expected


def test_a_system_without_a_load_average(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(machine.os, "getloadavg", lost)
    assert machine.load_average() is None
    monkeypatch.delattr(machine.os, "getloadavg")
    assert machine.load_average() is None
