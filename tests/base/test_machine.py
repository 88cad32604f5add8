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


@pytest.mark.parametrize(
    ("load", "seconds", "whole", "expected"),
    [
        (0.1, 1, 2, False),  # idle
        (2.0, 600, 2, False),  # this program alone
        (0.4, 12, 2, False),
        (2.3, 12, 2, True),  # two others, and this one for a while
        (4.0, 600, 2, True),
        (3.0, 600, 2, True),
        (8.0, 600, 16, False),  # others, on cores that are not needed here
        (17.0, 600, 16, True),
        (None, 600, 2, False),
    ],
)
def test_other_programs_are_seen_by_the_load_beyond_this_one(
    load: float | None, seconds: float, whole: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "load_average", lambda: load)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: whole)
    monkeypatch.setattr(machine, "_BEGAN", machine.time.monotonic() - seconds)
    assert machine.others_compute(threads=2) is expected


def test_a_system_without_a_load_average(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(machine.os, "getloadavg", lost)
    assert machine.load_average() is None
    monkeypatch.delattr(machine.os, "getloadavg")
    assert machine.load_average() is None
