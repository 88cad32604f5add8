"""A grid of many tiny runs in processes of which some are killed, against the same grid undisturbed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from comparing import differences
from procrustean.records import RunSpec
from procrustean.runs import fit_many
from procrustean.runs.worker import Worker
from tally import Tally

METHODS = ("erm", "mfw", "ldam", "crt", "mixup", "balanced_softmax", "tau_norm", "focal")
PROCESSES = 2


def grid(source: Path, folder: Path, runs: int) -> list[RunSpec]:
    settings: dict[str, Any] = {"net": "small", "epochs": 6, "batch_size": 16, "device": "cpu", "precision": "fp32"}
    return [
        RunSpec(
            str(source),
            **settings,
            method=METHODS[number % len(METHODS)],
            seed=number,
            hold_out=2,
            checkpoint_every=0.1,
            run_dir=folder / str(number),
        )
        for number in range(runs)
    ]


def soak(source: Path, folder: Path, runs: int, seed: int, say: Callable[[str], None]) -> Tally:
    """One process in twenty is killed while it trains a run; all runs end as in the grid that nothing disturbs."""
    tally, watch = Tally(f"processes of a grid of {runs} runs killed"), Watch()
    with watch:
        undisturbed = fit_many(grid(source, folder / "undisturbed", runs), processes=PROCESSES)
    say(f"{runs} undisturbed runs")
    chance = random.Random(seed)
    killer = Killer(chance.sample(range(runs), -(-runs // 20)), chance)
    with killer:
        disturbed = fit_many(grid(source, folder / "disturbed", runs), processes=PROCESSES)
    failed = [str(outcome.error) for outcome in (*undisturbed, *disturbed) if outcome.error is not None]
    differing = [
        f"run {number}: {', '.join(found)} differ"
        for number in range(runs)
        if (found := differences(folder / f"disturbed/{number}", folder / f"undisturbed/{number}"))
    ]
    tally.problems += failed + differing + watch.problems()
    tally.survived = max(0, killer.killed - len(tally.problems))
    tally.measured = {"runs": runs, "processes": PROCESSES, "identical runs": runs - len(differing), **watch.measured()}
    say(f"{killer.killed} processes killed")
    return tally


class Killer:
    """Kills the process that trains one of the chosen runs, a random time after it has begun."""

    def __init__(self, chosen: list[int], chance: random.Random) -> None:
        self.left, self.chance, self.killed = set(chosen), chance, 0
        self._patch = mock.patch.object(Worker, "give", self._wrapped(Worker.give))

    def _wrapped(self, give: Callable[..., Any]) -> Callable[..., Any]:
        def give_and_kill(worker: Worker, task: Any) -> Any:
            future = give(worker, task)
            number = int(task.args[0].run_dir.name)
            if number in self.left:
                self.left.remove(number)
                threading.Thread(target=self._kill, args=(process_of(worker),), daemon=True).start()
            return future

        return give_and_kill

    def _kill(self, process: int) -> None:
        time.sleep(self.chance.uniform(0, 0.6))
        self.killed += 1
        os.kill(process, signal.SIGKILL)

    def __enter__(self) -> None:
        self._patch.start()

    def __exit__(self, *error: object) -> None:
        self._patch.stop()


class Watch:
    """Memory and handles of the processes of a grid, and of the program, after every run."""

    def __init__(self) -> None:
        self.samples: dict[int, list[tuple[float, int]]] = {}
        self.own: list[tuple[float, int]] = []
        self.children_left = 0
        self._patch = mock.patch.object(Worker, "give", self._wrapped(Worker.give))

    def _wrapped(self, give: Callable[..., Any]) -> Callable[..., Any]:
        def look(worker: Worker, task: Any) -> Any:
            future, process = give(worker, task), process_of(worker)
            future.add_done_callback(lambda future: self._look(process))
            return future

        return look

    def _look(self, process: int) -> None:
        self.samples.setdefault(process, []).append(used(process))
        self.own.append(used(os.getpid()))

    def __enter__(self) -> None:
        self._children = children()
        self._patch.start()

    def __exit__(self, *error: object) -> None:
        self._patch.stop()
        self.children_left = len(children() - self._children)

    def measured(self) -> dict[str, Any]:
        return {
            "memory growth of a process, MB": max(growth(samples) for samples in self.samples.values()),
            "memory growth of the program, MB": growth(self.own),
            "handles more of a process": max(samples[-1][1] - samples[5][1] for samples in self.samples.values()),
            "handles more of the program": self.own[-1][1] - self.own[5][1],
            "processes left over": self.children_left,
            "runs per process": min(len(samples) for samples in self.samples.values()),
        }

    def problems(self) -> list[str]:
        measured = self.measured()
        limits = {name: 30.0 if "memory" in name else 0 for name in measured if name != "runs per process"}
        return [f"{name}: {measured[name]}" for name, limit in limits.items() if measured[name] > limit]


def growth(samples: list[tuple[float, int]]) -> float:
    """From the end of the first quarter, when everything has been used once, to the end."""
    return round(samples[-1][0] - samples[len(samples) // 4][0], 1)


def used(process: int) -> tuple[float, int]:
    """Megabytes and open handles."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024, len(list(Path(f"/proc/{process}/fd").iterdir()))


def process_of(worker: Worker) -> int:
    (process,) = worker._pool._processes
    return int(process)


def children() -> set[str]:
    """Those that train, and not the one with which loky cleans up."""
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return {child for child in found if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes()}
