"""Train the runs of a grid in several processes. One that dies is replaced, and its run goes on where it was saved.

Each process is a fresh interpreter, with one thread unless OMP_NUM_THREADS says otherwise, that is given one run after
the other over a pipe, and tells over another how far it is. It ends with its pipe, and saves itself and ends if the
program that started it is killed.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from procrustean.base.errors import ConfigError, RunError
from procrustean.base.lease import RunInUse
from procrustean.base.process_progress import Shown, Telling, write_or_drop
from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.base.user_code import failure_text
from procrustean.engine.device import refuse_several_ranks
from procrustean.records.run_names import Distinct, differences
from procrustean.records.run_spec import RunSpec
from procrustean.runs.image_loading import Sources
from procrustean.runs.loggers import Tool, imported
from procrustean.runs.many_runs import Outcome, check_places, fit_many, outcome_of, starting_cost
from procrustean.runs.train_api import STOPPED_AMONG_MANY, Stopped

#: Processes that may die over one run before it is given up.
DEATHS = 3
#: Seconds between looks at whether the program was asked to stop, and whether it is still there.
PATIENCE = 0.2


def fit_in_processes(
    configs: Sequence[RunSpec], *, processes: int, reporter: Reporter | None = None, log: Tool | None = None
) -> list[Outcome]:
    """Train all runs, as `fit_many` does, with so many processes; the results do not depend on their number.

    Args:
        configs: the runs; every process loads their sources itself.
        processes: how many.
        reporter: where progress goes; silent by default.
        log: tool that is handed the numbers of every epoch of each run.
    """
    refuse_several_ranks()
    if processes < 1:
        raise ConfigError(f"processes = {processes} received; at least one is needed")
    if log is not None:
        imported(log)
    paths = check_places(configs)
    grid = _Grid(configs, paths, reporter or Reporter(), log)
    with stop_on_signal(grid.reporter.say) as stop:
        try:
            while grid.goes_on(stopping=stop()):
                grid.hand_out(processes)
                grid.listen()
        finally:
            grid.close()
        if stop() and grid.unfinished:
            raise Stopped(STOPPED_AMONG_MANY, stop.exit_code)
    return [grid.outcome(number) for number in range(len(configs))]


class _Grid:
    """What is left to do, who does it, and what came of the rest."""

    def __init__(self, configs: Sequence[RunSpec], paths: Sequence[Path], reporter: Reporter, log: Tool | None) -> None:
        self.configs, self.paths, self.reporter, self.log = configs, paths, reporter, log
        self.shown = [Shown(Distinct(reporter, addition)) for addition in differences(configs)]
        # Processes are for CPUs: on a GPU runs go side by side in one.
        costs = [starting_cost(config, "cpu") for config in configs]
        self.waiting = deque(sorted(range(len(configs)), key=lambda number: -costs[number]))
        self.workers: list[_Worker] = []
        self.deaths: Counter[int] = Counter()
        self.errors: dict[int, Exception] = {}
        self.done: set[int] = set()
        self._selector = selectors.DefaultSelector()

    @property
    def unfinished(self) -> bool:
        return len(self.done) + len(self.errors) < len(self.configs)

    def goes_on(self, *, stopping: bool) -> bool:
        """Whether any run is left; those in progress are asked to save themselves if the grid is to stop."""
        if stopping:
            self.waiting.clear()
            for worker in self.workers:
                worker.ask_to_stop()
        return bool(self.waiting) or any(worker.run is not None for worker in self.workers)

    def hand_out(self, processes: int) -> None:
        """Give every idle process a run, and start processes as far as there are runs for them."""
        while self.waiting:
            worker = next((worker for worker in self.workers if worker.run is None), None)
            if worker is None:
                if len(self.workers) == processes:
                    return
                worker = _Worker()
                self.workers.append(worker)
                self._selector.register(worker.answers, selectors.EVENT_READ, worker)
            number = self.waiting.popleft()
            config = {**self.configs[number].to_json(), "run_dir": str(self.paths[number])}
            worker.give(number, {"config": config, "log": self.log})

    def listen(self) -> None:
        """Take the messages that have come, show how far the runs are, and replace who died."""
        for key, _ in self._selector.select(timeout=PATIENCE):
            worker: _Worker = key.data
            messages = worker.messages()
            if messages is None:
                self._selector.unregister(worker.answers)
                self.workers.remove(worker)
                self._died(worker.run, worker.end(), asked=worker.asked)
                continue
            for message in messages:
                if "outcome" in message:
                    self._answered(message, worker)
                elif worker.run is not None:
                    self.shown[worker.run].take(message)

    def _answered(self, answer: dict[str, Any], worker: _Worker) -> None:
        number, worker.run = worker.run, None
        assert number is not None
        for warning in answer.get("warnings", []):
            self.reporter.warn(warning)
        if answer.get("error"):
            self.errors[number] = (RunInUse if answer.get("elsewhere") else RunError)(answer["error"])
        elif answer.get("stopped") and not worker.asked:
            self.waiting.appendleft(number)  # somebody else stopped the process, not the grid
        elif not answer.get("stopped"):
            self.done.add(number)
        over = f"{len(self.done) + len(self.errors)} of {len(self.configs)} runs over"
        if number in self.done and self.shown[number].finish(f"{answer.get('summary')}; {over}"):
            return
        self.shown[number].forget()
        self.reporter.say(f"{self.paths[number].name}: {answer['outcome']}; {over}")

    def _died(self, number: int | None, how: str, *, asked: bool) -> None:
        if number is None or asked:
            return
        self.deaths[number] += 1
        self.shown[number].forget()
        name = self.paths[number].name
        if self.deaths[number] < DEATHS:
            self.waiting.appendleft(number)
            self.reporter.say(f"{name}: its process {how}; it goes on from its last checkpoint")
        else:
            self.errors[number] = RunError(
                f"the processes that trained {self.paths[number]} were ended {DEATHS} times (the last one {how}); "
                "if memory ran out, use fewer --processes or a smaller --batch-size"
            )

    def close(self) -> None:
        """End all processes; those in the middle of a run, after a second signal, at once."""
        for worker in self.workers:
            worker.end()
        self.workers.clear()
        self._selector.close()

    def outcome(self, number: int) -> Outcome:
        return outcome_of(self.paths[number], self.errors.get(number))


class _Worker:
    """A process that trains one run at a time."""

    def __init__(self) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import work; work({os.getpid()})"
        command = [sys.executable, "-c", start]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            # A Ctrl-C reaches the program alone, which then asks each process once.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._runs, self.answers = self._process.stdin, self._process.stdout
        self._received = b""
        self.run: int | None = None  # what it works on
        self.asked = False  # whether it was asked to stop

    def give(self, number: int, task: dict[str, Any]) -> None:
        self.run = number
        with suppress(BrokenPipeError):  # a process that has died is found out by its silence
            self._runs.write(json.dumps(task).encode() + b"\n")
            self._runs.flush()

    def messages(self) -> list[dict[str, Any]] | None:
        """How far its run is, or what came of it, as far as that is there as a whole; None if the process has ended."""
        data = os.read(self.answers.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def ask_to_stop(self) -> None:
        if self.run is not None and not self.asked:
            self.asked = True
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> str:
        """End the process, and say how it ended."""
        if self.run is None:
            with suppress(BrokenPipeError):
                self._runs.close()  # it ends by itself
        else:
            self._process.kill()
        code = self._process.wait()
        for pipe in (self._runs, self.answers):
            with suppress(BrokenPipeError):
                pipe.close()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def work(parent: int) -> None:
    """What a process does: train one run after the other until its pipe is closed, or the program has gone.

    Args:
        parent: process id of the program, which may have been killed while this process was starting.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    # On Windows a launcher of the environment stands between the two.
    parent = os.getppid() if sys.platform == "win32" else parent
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sources = Sources()
    with suppress(BrokenPipeError):  # nobody is left to answer to
        for line in sys.stdin:
            task = json.loads(line)
            telling = Telling(partial(write_or_drop, answers.fileno()))
            answer = _trained(RunSpec.from_json(task["config"]), sources, task["log"], telling)
            answers.write(json.dumps({**answer, "summary": telling.summary, "warnings": telling.warnings}) + "\n")
            answers.flush()


def _trained(config: RunSpec, sources: Sources, log: Tool | None, reporter: Reporter) -> dict[str, Any]:
    stopped: dict[str, Any] = {"outcome": "stopped and saved", "stopped": True}
    try:
        # A scheduler that signals every process of a job has signalled this one before the program asks it to stop: the
        # second signal must not end it while it saves.
        with stop_on_signal(lambda text: None) as asked:
            (outcome,) = fit_many([config], sources=sources, width=1, log=log, reporter=reporter, time_up=asked)
    except Stopped:
        return stopped
    error = outcome.error
    if error is None:
        return stopped if outcome.result is None else {"outcome": "finished"}
    text = failure_text(error)
    said = text if outcome.elsewhere else f"failed: {text}"
    return {"outcome": said, "error": text, "elsewhere": outcome.elsewhere}


def _end_with(parent: int) -> None:
    """Stop as soon as the program that started this process is gone."""
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os.kill(os.getpid(), signal.SIGTERM)
