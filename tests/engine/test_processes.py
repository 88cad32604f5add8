"""Grids in several processes: what comes out does not depend on how many there are, or on which of them die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import forked
from procrustean.base import ConfigError
from procrustean.base.progress import Reporter
from procrustean.records import RunSpec
from procrustean.runs import fit_many
from procrustean.runs import run_processes as processes
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import Outcome, starting_cost
from procrustean.runs.run_processes import fit_in_processes

Same = Callable[[Path, Path], None]
PROJECT = Path(__file__).resolve().parents[2]


class Listening(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def grid(npz: Path, tiny: dict[str, Any]) -> Callable[[Path], list[RunSpec]]:
    def configs(folder: Path, runs: int = 4, epochs: int = 3) -> list[RunSpec]:
        # Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
        settings = {**tiny, "lr": 0.05, "evaluate_every": 1, "epochs": epochs, "checkpoint_every": 0.0}
        return [RunSpec(source=str(npz), **settings, seed=seed, run_dir=folder / str(seed)) for seed in range(runs)]

    return configs


class Watching(Listening):
    """Keeps what is shown of each run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[Any]] = {}

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self.seen.setdefault(name, []).append((epochs, first_epoch))

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        assert set(record) == {"loss", "images_per_second", "test"}
        self.seen[name].append(epoch)

    def run_finished(self, name: str, summary: str) -> None:
        self.seen[name].append(summary)


@pytest.mark.slow
def test_the_progress_inside_every_run_is_shown(grid: Callable[..., list[RunSpec]], tmp_path: Path) -> None:
    configs = grid(tmp_path / "many", 2, 12)
    configs[1] = replace(configs[1], seed=0, batch_size=8)  # of the same name but for this
    reporter = Watching()
    fit_in_processes(configs, processes=2, reporter=reporter)
    assert len(reporter.seen) == 2
    assert any("batch_size=8" in name for name in reporter.seen)
    for (started, *epochs, summary), config in zip(
        (reporter.seen[name] for name in sorted(reporter.seen, key=lambda name: "batch_size=8" in name)),
        configs,
        strict=True,
    ):
        assert started == (12, 0)
        assert epochs
        assert epochs == sorted(set(epochs))
        assert f"kept in {config.run_dir}; " in summary
        assert summary.endswith("of 2 runs over")
    again = Watching()
    fit_in_processes(configs, processes=1, reporter=again)
    assert again.seen == {}  # nothing was left to train
    assert again.said == ["0: finished; 1 of 2 runs over", "1: finished; 2 of 2 runs over"]


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_run_goes_on(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, same_run: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_many(grid(tmp_path / "one", 2, 20))
    killed: list[str] = []
    listen = processes._Grid.listen

    def listen_and_kill(self: processes._Grid) -> None:
        for worker in self.workers:
            run = self.paths[worker.run] if worker.run is not None else None
            if not killed and run is not None and (run / "epochs.jsonl").exists():
                os.kill(worker._process.pid, signal.SIGKILL)
                killed.append(run.name)
        listen(self)

    monkeypatch.setattr(processes._Grid, "listen", listen_and_kill)
    reporter = Listening()
    outcomes = fit_in_processes(grid(tmp_path / "many", 2, 20), processes=1, reporter=reporter)
    assert [outcome.error for outcome in outcomes] == [None] * 2
    assert any("its process was ended by SIGKILL; it goes on from its last" in text for text in reporter.said)
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
        lambda: all(list(tmp_path.glob(f"runs/*/{name}")) for name in ("checkpoints.json", "epochs.jsonl")), program
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
def ended() -> Iterator[list[int]]:
    """Signals that would have ended the process."""
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


def test_a_process_that_saves_is_not_ended_by_a_second_signal(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, ended: list[int]
) -> None:
    """Of a scheduler that signals all processes, and of the program that asks its own to stop."""

    class Signalled(Reporter):
        def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)

    (config,) = grid(tmp_path, 1, 20)
    assert processes._trained(config, Sources(), None, Signalled())["stopped"]
    assert (tmp_path / "0/checkpoints.json").exists()
    assert not (tmp_path / "0/result.json").exists()
    assert not ended


def test_a_signal_before_the_run_begins_stops_it(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def signalled(*args: Any, **settings: Any) -> list[Outcome]:
        signal.raise_signal(signal.SIGTERM)
        return fit_many(*args, **settings)

    monkeypatch.setattr(processes, "fit_many", signalled)
    assert processes._trained(grid(tmp_path, 1)[0], Sources(), None, Reporter())["stopped"]
    assert not (tmp_path / "0").exists()
    assert not ended


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


#: One of this project's own, whichever: what a process has trained is read back.
RESULT: dict[str, Any] = json.loads(min((PROJECT / "results" / "digits").glob("*.json")).read_text())


class Scripted:
    """A process that is told what becomes of each run: what it answers, or None where it dies."""

    script: list[dict[str, Any] | None]

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.answers, self._writer = os.fdopen(reader, "rb"), writer
        self.run: int | None = None
        self.asked = False

    def give(self, number: int, config: dict[str, Any]) -> None:
        self.run = number
        os.write(self._writer, b"x")

    def messages(self) -> list[dict[str, Any]] | None:
        os.read(self.answers.fileno(), 1)
        answer = self.script.pop(0)
        if answer is not None and "error" not in answer:
            (Path(answer["path"])).mkdir(parents=True)
            (Path(answer["path"]) / "result.json").write_text(json.dumps(RESULT))
        return None if answer is None else [answer]

    def ask_to_stop(self) -> None:
        self.asked = True

    def end(self) -> str:
        self.answers.close()
        os.close(self._writer)
        return "was ended by SIGKILL"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    Scripted.script = []
    monkeypatch.setattr(processes, "_Worker", Scripted)
    yield Scripted.script
    assert Scripted.script == []


def test_a_run_that_ends_every_process_is_given_up_and_the_others_go_on(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, scripted: list[Any]
) -> None:
    done = [{"outcome": "finished", "path": str(tmp_path / str(seed))} for seed in range(4)]
    scripted += [None, None, None, done[1], {"outcome": "failed", "error": "no number"}, done[3]]
    outcomes = fit_in_processes(grid(tmp_path), processes=1)
    assert [outcome.result for outcome in outcomes] == [None, RESULT, None, RESULT]
    assert "were ended 3 times (the last one was ended by SIGKILL)" in str(outcomes[0].error)
    assert "fewer --processes" in str(outcomes[0].error)
    assert str(outcomes[2].error) == "no number"


def test_two_deaths_are_forgiven(grid: Callable[..., list[RunSpec]], tmp_path: Path, scripted: list[Any]) -> None:
    done = [{"outcome": "finished", "path": str(tmp_path / str(seed))} for seed in range(4)]
    scripted += [None, None, done[0], None, done[1], done[2], done[3]]
    assert all(outcome.error is None for outcome in fit_in_processes(grid(tmp_path), processes=1))


def test_a_process_that_somebody_else_stops_does_not_lose_its_run(
    grid: Callable[..., list[RunSpec]], tmp_path: Path, scripted: list[Any]
) -> None:
    done = [{"outcome": "finished", "path": str(tmp_path / str(seed))} for seed in range(4)]
    saved = {"outcome": "stopped and saved", "stopped": True, "error": ""}
    scripted += [saved, done[0], done[1], saved, saved, done[2], done[3]]
    outcomes = fit_in_processes(grid(tmp_path), processes=1)
    assert [(outcome.result, outcome.error) for outcome in outcomes] == [(RESULT, None)] * 4


@pytest.mark.parametrize("number", [0, -3])
def test_at_least_one_process(number: int, grid: Callable[..., list[RunSpec]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"processes = {number} received"):
        fit_in_processes(grid(tmp_path), processes=number)
    assert not list(tmp_path.glob("[0-9]"))


def test_a_process_whose_program_was_killed_while_it_started_ends(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    start = f"from procrustean.runs.run_processes import work; work({gone.pid})"
    worker = subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert worker.wait(timeout=60) == -signal.SIGTERM  # though its pipe is open
    assert worker.stdin is not None
    worker.stdin.close()


def test_the_longest_run_on_a_cpu_starts_first() -> None:
    """Which need not be the longest one on a GPU."""
    runs = [
        RunSpec("cifar10", "long_tailed", 100, method=method, epochs=200) for method in ("domain_adaptation", "bbn")
    ]
    first, second = (starting_cost(run, "cuda") for run in runs)
    assert first > second
    waiting = processes._Grid(runs, [Path(run.slug) for run in runs], Reporter(), None).waiting
    assert [runs[number].method for number in waiting] == ["bbn", "domain_adaptation"]
