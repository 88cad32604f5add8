"""How long a run will take, from its first steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean import fit
from procrustean.base.progress import Reporter
from procrustean.engine import time_left as estimate
from procrustean.engine.time_left import PATIENCE, EarlyEstimate


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def estimated(seconds_per_step: float, *, done: int, steps: int = 100, epochs: int = 50) -> list[str]:
    """What is said when so many steps of the first epoch are done, the first of which took a minute."""
    clock, said = Clock(), list[str]()
    early = EarlyEstimate(said.append, "MFW", clock)
    clock.seconds = 60.0
    for step in range(1, done + 1):
        early.steps_done(step, steps, epochs)
        clock.seconds += seconds_per_step
    return said


def test_it_is_told_once_after_a_while() -> None:
    assert estimated(2.0, done=5) == []
    # 200 seconds an epoch, 50 of them, less the 6 steps that were made.
    assert estimated(2.0, done=6) == ["MFW: about 3 min 20 s an epoch, 2 h 46 min to the end"]
    assert estimated(2.0, done=100) == estimated(2.0, done=6)


def test_a_short_epoch_stays_quiet() -> None:
    assert estimated(PATIENCE / 101, done=100) == []


def test_the_end_of_the_first_epoch_makes_it_superfluous() -> None:
    clock, said = Clock(), list[str]()
    early = EarlyEstimate(said.append, "MFW", clock)
    early.steps_done(1, 100, 50)
    early.epoch_done()
    clock.seconds = 2 * PATIENCE
    early.steps_done(50, 100, 49)
    assert said == []


def test_steps_that_are_queued_but_not_done_tell_nothing() -> None:
    clock, said = Clock(), list[str]()
    early = EarlyEstimate(said.append, "MFW", clock)
    early.steps_done(1, 100, 50)
    clock.seconds = 2 * PATIENCE
    early.steps_done(1, 100, 50)
    assert said == []


class Listener(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(("patience", "lines"), [(0.0, 1), (PATIENCE, 0)])
def test_a_run_tells_it_only_where_its_first_epoch_is_long(
    patience: float, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "PATIENCE", patience)
    listener = Listener()
    settings = {"imbalance": "step", "rho": 20, "epochs": 2, "device": "cpu"}
    fit("digits", run_dir=tmp_path / "run", reporter=listener, **settings)
    assert len([text for text in listener.said if "MFW, step 20, seed 0: about" in text]) == lines
