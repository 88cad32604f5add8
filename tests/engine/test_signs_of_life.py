"""A long epoch shows that it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean import fit
from procrustean.base.progress import PassingOn, Reporter
from procrustean.engine import epoch_progress as signs_of_life
from procrustean.engine.epoch_progress import SPACING, SignsOfLife
from procrustean.records.run_names import Distinct


class Listener(Reporter):
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, float]] = []

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self.heard.append((name, epoch, share))


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_signs_come_at_most_once_a_while() -> None:
    clock, listener = Clock(), Listener()
    signs = SignsOfLife(listener, "MFW", clock)
    for step in range(1, 9):
        clock.seconds += SPACING / 4
        signs.steps_done(step, 10, 7)
    assert listener.heard == [("MFW", 7, 0.4), ("MFW", 7, 0.8)]


def test_reporters_pass_them_on_or_need_not_know_of_them() -> None:
    clock, listener = Clock(), Listener()
    for reporter in (PassingOn(Distinct(listener, "rho=20")), PassingOn(Reporter()), Reporter()):
        signs = SignsOfLife(reporter, "MFW", clock)
        clock.seconds += SPACING
        signs.steps_done(1, 2, 0)
    assert listener.heard == [("MFW (rho=20)", 0, 0.5)]


def test_a_run_gives_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs_of_life, "SPACING", 0.0)
    listener = Listener()
    settings = {"imbalance": "step", "rho": 20, "epochs": 2, "device": "cpu"}
    fit("digits", run_dir=tmp_path / "run", reporter=listener, **settings)
    assert {name for name, _, _ in listener.heard} == {"MFW, step 20, seed 0"}
    for epoch in (0, 1):
        shares = [share for _, of, share in listener.heard if of == epoch]
        assert len(shares) > 5
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] < 1
