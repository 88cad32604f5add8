"""Grids in several processes: what comes out does not depend on how many there are, or on which of them die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import forked
from procrustean.base import ConfigError
from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import Diverged
from procrustean.base.progress import Reporter
from procrustean.records import RunSpec
from procrustean.runs import fit_many
from procrustean.runs.worker import Worker
from saved_states import saved_states

Same = Callable[[Path, Path], None]


@pytest.fixture
def grid(npz: Path, tiny: dict[str, Any]) -> Callable[[Path], list[RunSpec]]:
    def configs(folder: Path, runs: int = 4, epochs: int = 3) -> list[RunSpec]:
        # Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
        settings = {**tiny, "lr": 0.05, "evaluate_every": 1, "epochs": epochs, "checkpoint_every": 0.0}
        return [RunSpec(source=str(npz), **settings, seed=seed, run_dir=folder / str(seed)) for seed in range(runs)]

    return configs


class Recording(Reporter):
    """Keeps what is shown of each run."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Any]] = {}
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self.seen.setdefault(name, []).append((epochs, first_epoch))

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        self.seen[name].append(epoch)

    def run_finished(self, name: str, summary: str) -> None:
        self.seen[name].append(summary)


@pytest.mark.slow
def test_progress_and_results_are_those_of_one_process(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, same_run: Same
) -> None:
    def configs(folder: Path) -> list[RunSpec]:
        runs = grid(folder, 2, 12)
        return [runs[0], replace(runs[1], seed=0, batch_size=8)]  # of the same name but for this

    reporter, alone = Recording(), Recording()
    fit_many(configs(tmp_path / "many"), processes=2, reporter=reporter)
    fit_many(configs(tmp_path / "one"), reporter=alone)
    assert {name: seen[:-1] for name, seen in reporter.seen.items()} == {
        name: seen[:-1] for name, seen in alone.seen.items()
    }
    assert any("batch_size=8" in name for name in reporter.seen)
    for seed in range(2):
        same_run(tmp_path / f"many/{seed}", tmp_path / f"one/{seed}")
    again = Recording()
    outcomes = fit_many(configs(tmp_path / "many"), processes=1, reporter=again)
    assert again.seen == {}  # nothing was left to train
    assert all(outcome.record is not None for outcome in outcomes)


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_run_goes_on(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, same_run: Same
) -> None:
    fit_many(grid(tmp_path / "one", 2, 20))
    killed: list[int] = []

    class Killing(Recording):
        def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
            if not killed and epoch > 1:
                killed.append(max(children(os.getpid())))
                os.kill(killed[0], signal.SIGKILL)

    reporter = Killing()
    outcomes = fit_many(grid(tmp_path / "many", 2, 20), processes=1, reporter=reporter)
    assert [outcome.error for outcome in outcomes] == [None] * 2
    assert any("its process was ended; it goes on from its last" in text for text in reporter.said)
    for seed in range(2):
        same_run(tmp_path / f"many/{seed}", tmp_path / f"one/{seed}")


@pytest.mark.slow
def test_processes_end_with_the_program_and_save(grid: Callable[..., list[RunSpec]], npz: Path, tmp_path: Path) -> None:
    """The program is killed: nobody is left to tell its processes."""
    base = {name: value for name, value in grid(tmp_path)[0].to_json().items() if name not in ("run_dir", "seed")}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump({"base": {**base, "epochs": 3000}, "grid": {"seed": [0]}}))
    arguments = ["fleet", tmp_path / "grid.yaml", "--output", tmp_path / "runs", "--processes", "1"]
    program = forked.start(arguments, tmp_path / "log")
    # On a slow machine the first checkpoint comes before the first epoch has ended.
    assert forked.wait_for(
        lambda: all(map(saved_states, tmp_path.glob("runs/*"))) and any(tmp_path.glob("runs/*/epochs.jsonl")), program
    )
    (run,) = (tmp_path / "runs").iterdir()
    assert program.pid is not None
    (worker,) = children(program.pid)
    program.kill()
    program.join()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = (run / "epochs.jsonl").read_bytes()
    assert not list(run.glob(".*.tmp"))
    time.sleep(0.2)
    assert (run / "epochs.jsonl").read_bytes() == before


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many of the next processes that are given the run of a name die over it."""
    left: dict[str, int] = {}
    give = Worker.give

    def give_or_die(self: Worker, task: Any) -> Future[Any]:
        name = task.args[0].run_dir.name
        if not left.get(name):
            return give(self, task)
        left[name] -= 1
        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool())
        return future

    monkeypatch.setattr(Worker, "give", give_or_die)
    yield left
    assert not any(left.values())


@pytest.mark.slow
def test_a_run_that_ends_every_process_is_given_up_and_the_others_go_on(
    grid: Callable[[Path, int, int], list[RunSpec]], tmp_path: Path, dying: dict[str, int]
) -> None:
    configs = grid(tmp_path, 3, 1)
    configs[2] = replace(configs[2], lr=1e30)
    dying |= {"0": 3, "1": 2}
    failed: list[str] = []
    given_up, finished, diverged = fit_many(
        configs, processes=1, failed=lambda config, error: failed.append(str(config.run_dir))
    )
    assert "were ended 3 times" in str(given_up.error)
    assert "fewer --processes" in str(given_up.error)
    assert finished.record is not None
    assert isinstance(diverged.error, Diverged)
    assert failed == [str(given_up.path), str(diverged.path)]


@pytest.mark.slow
def test_a_process_that_somebody_else_stops_does_not_lose_its_run(
    grid: Callable[[Path, int, int], list[RunSpec]], tmp_path: Path
) -> None:
    (config,) = grid(tmp_path, 1, 20)
    reporter = Recording()

    def stopped_once(name: str, epoch: int, record: dict[str, Any]) -> None:
        if "stopped" not in reporter.seen:
            reporter.seen["stopped"] = []
            os.kill(*max((child, signal.SIGTERM) for child in children(os.getpid())))

    reporter.epoch_done = stopped_once  # type: ignore[method-assign]
    (outcome,) = fit_many([config], processes=1, reporter=reporter)
    assert outcome.record is not None
    assert len(reporter.seen["ERM, seed 0"]) == 3  # it began, and went on to the end


@pytest.mark.slow
def test_a_call_that_is_stopped_goes_on(grid: Callable[[Path, int, int], list[RunSpec]], tmp_path: Path) -> None:
    asked = iter(range(1000))
    cut = fit_many(grid(tmp_path, 2, 3000), processes=2, time_up=lambda: next(asked) > 20)
    assert [(outcome.record, outcome.error) for outcome in cut] == [(None, None)] * 2
    assert not list(tmp_path.glob("*/.in-use"))


def children(process: int) -> list[int]:
    """Those that train, and not the one with which loky cleans up."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize("number", [0, -3])
def test_at_least_one_process(number: int, grid: Callable[..., list[RunSpec]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"processes = {number} received"):
        fit_many(grid(tmp_path), processes=number)
    assert not list(tmp_path.glob("[0-9]"))
