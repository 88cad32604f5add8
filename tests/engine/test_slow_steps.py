"""A CPU that other programs make far slower than expected is told of once, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from procrustean.base.progress import Reporter
from procrustean.engine import slow_steps
from procrustean.engine.slow_steps import PATIENCE, SlowSteps
from procrustean.runs import fit
from procrustean.runs import one_run as ongoing_run


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs compute."""
    monkeypatch.setattr(slow_steps, "others_compute", lambda threads: True)


def told(seconds_per_step: float, *, steps: int = 100, expected: float = 240.0) -> list[tuple[float, float, int]]:
    """What is told of steps of 32 images, the first of which takes a minute, with an hour between each two."""
    clock, found = Clock(), list[tuple[float, float, int]]()
    slow = SlowSteps(lambda *numbers: found.append(numbers), lambda: expected, clock)
    for step in range(steps):
        slow.begin()
        clock.seconds += seconds_per_step if step else 60.0
        slow.done(32)
        clock.seconds += 3600.0
    return found


@pytest.mark.usefixtures("two_threads", "busy")
class TestSteps:
    def test_slow_ones_are_told_once(self) -> None:
        assert told(0.5) == [(64.0, 240.0, 2)]

    def test_before_a_while_nothing_is_told(self) -> None:
        assert told(0.5, steps=int(PATIENCE / 0.5)) == []

    def test_speed_as_expected_or_half_of_it_is_no_news(self) -> None:
        assert told(32 / 240) == told(64 / 240) == []

    def test_other_programs_may_begin_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looks = iter([False, False, True])
        monkeypatch.setattr(slow_steps, "others_compute", lambda threads: next(looks))
        assert told(0.5) == [(64.0, 240.0, 2)]


@pytest.mark.usefixtures("two_threads")
def test_a_network_that_is_slow_by_itself_is_not_blamed_on_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "others_compute", lambda threads: False)
    assert told(0.5) == []


@pytest.mark.usefixtures("busy")
def test_one_thread_cannot_be_fewer() -> None:
    assert torch.get_num_threads() == 1
    assert told(0.5) == []


class Listener(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    say_once = say


@pytest.mark.usefixtures("two_threads", "busy")
def test_a_run_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "PATIENCE", 0.0)
    monkeypatch.setattr(ongoing_run, "expected_speed_on_cpu", lambda prepared: 1e9)
    listener = Listener()
    settings: dict[str, Any] = {"imbalance": "step", "rho": 20, "epochs": 1, "device": "cpu", "net": "resnet20"}
    run = fit("digits", run_dir=tmp_path / "run", reporter=listener, **settings)
    cures = [text for text in listener.said if "other programs probably use the cores" in text]
    assert len(cures) == 1
    assert f"then OMP_NUM_THREADS=1 procrustean resume {run.path}." in cures[0]
    assert any("images a second, where about 1,000,000,000 were expected" in text for text in listener.said)
