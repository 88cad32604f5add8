from __future__ import annotations

from dataclasses import replace

import pytest

from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import Reporter
from procrustean.paper import Cell, PlannedRun
from procrustean.paper import train_plan as pace
from procrustean.paper.plan_progress import INTERVAL, SETTLED, Progress
from procrustean.records import RunSpec


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Said(Reporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def planned(seed: int, cost: float) -> PlannedRun:
    config = RunSpec("digits", method="erm", seed=seed)
    return PlannedRun(config, (Cell("t", "ERM", "digits", EPOCH),), "waiting", cost, int(cost))


EPOCH = EpochRecord(stage=0, epoch=0, loss=0.5, lr=0.1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_predicted_time_until_the_speed_is_measured(clock: Clock) -> None:
    runs = [planned(0, 1000.0), planned(1, 1000.0)]
    progress = Progress(runs, Reporter(), rate=10.0, width=1, clock=clock)
    assert progress.seconds_left == 200
    one = progress.of(runs[0])
    one.run_started("", 10, 0)
    clock.now += SETTLED / 2
    one.epoch_done("", 0, EPOCH)
    assert progress.rate == 10.0
    assert progress.seconds_left == pytest.approx(190)
    clock.now += SETTLED
    one.epoch_done("", 1, EPOCH)
    # 200 of the cost in 30 seconds, not in 20 as predicted.
    assert progress.rate == pytest.approx(200 / 30)
    assert progress.seconds_left == pytest.approx(1800 / (200 / 30))


def test_a_run_that_goes_on_was_not_trained_in_this_call(clock: Clock) -> None:
    run = planned(0, 1000.0)
    progress = Progress([run], Reporter(), rate=10.0, width=1, clock=clock)
    one = progress.of(run)
    one.run_started("", 10, 8)
    clock.now += 2 * SETTLED
    one.epoch_done("", 8, EPOCH)
    assert progress.earned == pytest.approx(100)
    assert progress.seconds_left == pytest.approx(2 * SETTLED)


def test_the_speed_is_measured_before_an_epoch_has_ended(clock: Clock) -> None:
    run = planned(0, 1000.0)
    progress = Progress([run], Reporter(), rate=10.0, width=1, clock=clock)
    one = progress.of(run)
    one.run_started("", 10, 0)
    clock.now += 2 * SETTLED
    one.within_epoch("", 0, 0.5)
    assert (progress.earned, progress.seconds) == (pytest.approx(50), 2 * SETTLED)
    assert progress.seconds_left == pytest.approx(950 / (50 / (2 * SETTLED)))
    one.epoch_done("", 0, EPOCH)
    assert progress.earned == pytest.approx(100)


def test_what_an_earlier_call_has_done_of_an_epoch_was_not_trained_in_this_one(clock: Clock) -> None:
    run = replace(planned(0, 1000.0), state="begun")
    progress = Progress([run], Reporter(), rate=10.0, width=1, clock=clock)
    one = progress.of(run)
    one.run_started("", 10, 3)
    one.within_epoch("", 3, 0.5)
    assert progress.earned == 0
    one.within_epoch("", 3, 0.75)
    assert progress.earned == pytest.approx(25)


def test_a_line_from_time_to_time(clock: Clock) -> None:
    said, runs = Said(), [planned(0, 600.0), planned(1, 600.0)]
    progress = Progress(runs, said, rate=10.0, width=1, clock=clock, deadline=clock.now + 100)
    one = progress.of(runs[0])
    one.run_started("", 4, 0)
    one.epoch_done("", 0, EPOCH)
    assert said.lines == []
    clock.now += INTERVAL
    one.epoch_done("", 1, EPOCH)
    one.epoch_done("", 2, EPOCH)
    assert said.lines == ["0 of 2 runs, 25 % of the work, about 1 min 30 s to go, 1 min 10 s of them in this call"]
    one.epoch_done("", 3, EPOCH)
    one.run_finished("", "")
    assert progress.text().startswith("1 of 2 runs, 50 % of the work")


def test_runs_that_do_not_go_on_here_take_no_more_time(clock: Clock) -> None:
    runs = [planned(seed, 600.0) for seed in range(4)]
    progress = Progress(runs, Reporter(), rate=10.0, width=1, clock=clock)
    one = progress.of(runs[0])
    one.run_started("", 4, 0)
    one.epoch_done("", 0, EPOCH)
    progress.given_up(runs[0], elsewhere=False)
    progress.given_up(runs[1], elsewhere=True)
    progress.found(runs[2], 1.0)
    assert progress.seconds_left == 60
    assert progress.text() == (
        "1 of 4 runs, 1 failed, 1 trained by another process, 50 % of the work, about 1 min 0 s to go"
    )
    assert progress.earned == pytest.approx(150)  # the time that it took counts all the same


def test_the_speed_of_earlier_calls_is_remembered(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    monkeypatch.setattr(pace, "machine_name", lambda: ("cuda", "NVIDIA H200"))
    assert pace.expected_rate(folder) == 140_000
    pace.note_rate(folder, 1000.0, 5.0)  # too short to say anything
    assert pace.expected_rate(folder) == 140_000
    pace.note_rate(folder, 10_000.0, 100.0)
    assert pace.expected_rate(folder) == 100
    pace.note_rate(folder, 20_000.0, 100.0)
    assert pace.expected_rate(folder) == pytest.approx(25_000 / 150)
    monkeypatch.setattr(pace, "machine_name", lambda: ("cpu", "cpu"))
    assert pace.expected_rate(folder) == 500


def test_what_a_run_says_of_itself_comes_under_its_row_and_column(clock: Clock) -> None:
    class Lines(Said):
        def say_once(self, text: str) -> None:
            self.say(text)

    run, reporter = planned(0, 1000.0), Lines()
    one = Progress([run], reporter, rate=10.0, width=1, clock=clock).of(run)
    one.run_started("ERM, as it is, seed 0", 10, 0)
    one.say("ERM, as it is, seed 0: class weights")
    one.say("a word about all")
    assert reporter.lines == ["ERM, digits, seed 0: class weights", "a word about all"]
