"""A long epoch shows that it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean import fit
from procrustean.base.progress import Distinct, PassingOn, Reporter
from procrustean.engine import training


class Listener(Reporter):
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, float]] = []

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self.heard.append((name, epoch, share))


@pytest.mark.parametrize("spacing", [0.0, 1e9])
def test_a_run_gives_signs_at_most_once_a_while(
    spacing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "SPACING", spacing)
    listener = Listener()
    settings = {"imbalance": "step", "rho": 20, "epochs": 2, "device": "cpu"}
    fit("digits", run_dir=tmp_path / "run", reporter=PassingOn(Distinct(listener, "rho=20")), **settings)
    if spacing:
        assert listener.heard == []
        return
    assert {name for name, _, _ in listener.heard} == {"MFW, step 20, seed 0 (rho=20)"}
    for epoch in (0, 1):
        shares = [share for _, of, share in listener.heard if of == epoch]
        assert len(shares) > 5
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] < 1
