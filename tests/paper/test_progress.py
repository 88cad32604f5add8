from __future__ import annotations

import pytest

from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import Reporter
from procrustean.paper import Cell, PlannedRun, train_plan
from procrustean.paper.train_plan import INTERVAL, SETTLED, Progress
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


@pytest.fixture(autouse=True)
def rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_plan, "first_rate", lambda: 10.0)


def test_predicted_time_until_the_speed_is_measured(clock: Clock) -> None:
    runs = [planned(0, 1000.0), planned(1, 1000.0)]
    progress = Progress(runs, Reporter(), width=1, clock=clock)
    assert progress.seconds_left == 200
    one = progress.of(runs[0])
    one.run_started("", 10, 0)
    clock.now += SETTLED / 2
    one.epoch_done("", 0, EPOCH)
    assert progress.seconds_left == pytest.approx(190)
    clock.now += SETTLED
    one.within_epoch("", 1, 0.5)
    # 150 of the cost in 30 seconds, not in 15 as predicted.
    assert progress.seconds_left == pytest.approx(1850 / (150 / 30))


def test_a_run_that_goes_on_was_not_trained_in_this_call(clock: Clock) -> None:
    run = planned(0, 1000.0)
    progress = Progress([run], Reporter(), width=1, clock=clock)
    one = progress.of(run)
    one.run_started("", 10, 8)
    clock.now += 2 * SETTLED
    one.epoch_done("", 8, EPOCH)
    assert progress.seconds_left == pytest.approx(2 * SETTLED)


def test_a_line_from_time_to_time(clock: Clock) -> None:
    said, runs = Said(), [planned(0, 600.0), planned(1, 600.0)]
    progress = Progress(runs, said, width=1, clock=clock)
    one = progress.of(runs[0])
    one.run_started("", 4, 0)
    one.epoch_done("", 0, EPOCH)
    assert said.lines == []
    clock.now += INTERVAL
    one.epoch_done("", 1, EPOCH)
    one.epoch_done("", 2, EPOCH)
    assert said.lines == ["0 of 2 runs done, about 1 min 30 s to go"]
    one.epoch_done("", 3, EPOCH)
    one.run_finished("", "")
    assert progress.text().startswith("1 of 2 runs done")


def test_runs_that_do_not_go_on_here_take_no_more_time(clock: Clock) -> None:
    runs = [planned(seed, 600.0) for seed in range(3)]
    progress = Progress(runs, Reporter(), width=1, clock=clock)
    progress.came_to(runs[0], 1.0, trained=False)
    progress.came_to(runs[1], 0.5, trained=False)
    assert progress.seconds_left == 90


def test_what_a_run_says_of_itself_comes_under_its_row_and_column(clock: Clock) -> None:
    class Lines(Said):
        def say_once(self, text: str) -> None:
            self.say(text)

    run, reporter = planned(0, 1000.0), Lines()
    one = Progress([run], reporter, width=1, clock=clock).of(run)
    one.run_started("ERM, as it is, seed 0", 10, 0)
    one.say("ERM, as it is, seed 0: class weights")
    one.say("a word about all")
    assert reporter.lines == ["t: ERM, digits, seed 0: class weights", "a word about all"]
