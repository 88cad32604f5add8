"""Runs, comparisons and tunings, killed or stopped at random moments again and again, against undisturbed ones."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import forked
from comparing import differences, runs_below
from procrustean.balance import Problem
from procrustean.methods import METHODS, make_method
from saved_states import saved_states, state
from tally import Tally

#: What a process that was stopped in an orderly way exits with.
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 138}
#: Most disturbances of one run.
MOST = 12
#: Share of the kills that wait until the run trains; the others come at any time after the process has begun.
TRAINING = 0.9
#: What is done with several runs in one folder, for each time that every method has had its turn.
SEVERAL = ("auto", "tune", "auto", "tune")
#: What some runs keep or do beside training, as settings of the command line; each run does so with this probability.
BESIDES = {
    "averages": ["--average", "both"],
    "probes": ["--probes", "--probe-every", "1"],
    "features": ["--features-at", "1", "3"],
    "kept weights": ["--keep-weights-every", "2"],
    "streamed images": ["--images", "streamed", "--workers", "1"],
}
OFTEN = 1 / 3


def kills_and_signals(source: Path, folder: Path, count: int, seed: int, say: Callable[[str], None]) -> list[Tally]:
    """Disturb runs until so many processes were killed; one in five disturbances is a signal that asks to stop."""
    chance = random.Random(seed)
    kills, signals = Tally("kills (SIGKILL) at random moments"), Tally("signals (SIGINT, SIGTERM, SIGUSR1)")
    used: Counter[str] = Counter()
    kinds: list[str] = []
    number = 0
    while kills.injected < count:
        kinds = kinds or chance.sample([*sorted(METHODS), *SEVERAL], len(METHODS) + len(SEVERAL))
        run = Disturbed(source, folder / str(number), kinds.pop(), chance)
        run.disturb(min(MOST, count - kills.injected), kills, signals)
        used.update(run.used)
        number += 1
        say(f"{kills.injected} of {count} kills, {signals.injected} signals, {number} runs")
    kills.measured |= {"runs": number, **{f"with {what}": times for what, times in sorted(used.items())}}
    return [kills, signals]


def can_be_averaged(method: str) -> bool:
    """Whether a method trains in one stage and leaves the network as it is then; others refuse averages."""
    made = make_method(method, Problem((24, 18, 12, 6), "long_tailed"))
    return len(made.stages) == 1 and made.finish is None


class Disturbed:
    """One run, comparison of methods or tuning, with its undisturbed twin."""

    def __init__(self, source: Path, folder: Path, kind: str, chance: random.Random) -> None:
        self.folder, self.chance, self.kind = folder, chance, kind
        folder.mkdir(parents=True)
        self.run, self.log = folder / "run", folder / "log"
        several = kind in SEVERAL
        epochs = chance.randint(2, 4) if several else chance.randint(6, 12)
        self.settings = ["--net", "small", "--epochs", str(epochs), "--batch-size", "16", "--device", "cpu"]
        self.settings += ["--precision", chance.choice(["fp32", "bf16"]), "--seed", str(chance.randint(0, 99))]
        self.settings += ["--hold-out", "2"]
        if kind == "tune":
            self.settings = ["tune", str(source), "--method", "focal", "--over", "gamma=1,2", *self.settings]
        else:
            self.settings = ["train", str(source), "--method", kind, *self.settings]
        if kind == "auto":
            self.settings += ["--minutes", "600"]
        possible = {"streamed images"} if several else set(BESIDES)
        if not several and not can_be_averaged(kind):
            possible.remove("averages")
        self.used = {what for what in BESIDES if what in possible and chance.random() < OFTEN}
        for what in sorted(self.used):
            self.settings += BESIDES[what]
        self.used |= {"comparison of methods"} if kind == "auto" else {"tuning"} if kind == "tune" else set()
        self.place = "--output" if kind == "tune" else "--run-dir"
        self.result = {"auto": "auto.json", "tune": "tuning.json"}.get(kind, "result.json")
        self.every = chance.choice(["0", "0", "0.05", "30"])

    def disturb(self, most: int, kills: Tally, signals: Tally) -> None:
        """Train it in spite of up to `most` disturbances, and compare it with its twin."""
        whole = self._to_the_end([*self.settings, self.place, str(self.folder / "whole")])
        seconds = self._seconds() if whole == 0 else 0.0
        disturbances: list[tuple[Tally, str]] = []
        name = f"{self.kind} with {', '.join(sorted(self.used)) or 'nothing else'}"
        problem = "" if whole == 0 else f"{name}: the undisturbed run exits with {whole}: {self._said()}"
        while not problem and len(disturbances) < most and not self._finished():
            kind = self.chance.choice([signal.SIGKILL] * 4 + [self.chance.choice(list(CODES))])
            code = self._disturbed(kind, self.chance.uniform(0, seconds))
            if code is None:
                continue
            disturbances.append((kills if kind == signal.SIGKILL else signals, self._where()))
            if code not in (-kind, CODES.get(kind, -kind)):
                problem = f"{name}: exits with {code} after {kind.name}: {self._said()}"
        if not problem and not self._finished() and (code := self._to_the_end(self._command())):
            problem = f"{name}: cannot be resumed ({code}): {self._said()}"
        if not problem and (differing := differences(self.run, self.folder / "whole")):
            problem = f"{name}: {', '.join(differing)} differ after {len(disturbances)} disturbances"
        for tally, where in disturbances:
            tally.details[where] += 1
            if problem:
                tally.problems.append(problem)
            else:
                tally.survived += 1
        if problem and not disturbances:
            kills.problems.append(problem)

    def _command(self) -> list[str]:
        """What begins it or goes on with it; comparisons and tunings go on with the command that began them."""
        if self.kind not in SEVERAL and (self.run / "config.json").exists():
            return ["resume", str(self.run)]
        return [*self.settings, "--checkpoint-every", self.every, self.place, str(self.run)]

    def _finished(self) -> bool:
        path, last = self.run / self.result, {"auto": "chosen", "tune": "retrained"}.get(self.kind)
        # Comparisons and tunings write theirs before they are done, and name in it what they train last.
        return path.exists() and (last is None or bool(json.loads(path.read_text())[last]))

    def _disturbed(self, kind: signal.Signals, after: float) -> int | None:
        """The exit code of a process that was sent a signal; None if it had ended before."""
        begun = self._written()
        process = forked.start([*self._command(), "--quiet"], self.log)
        if kind != signal.SIGKILL or self.chance.random() < TRAINING:
            forked.wait_for(lambda: self._written() != begun, process)
        process.join(after)
        if process.exitcode is not None:
            assert process.exitcode == 0, self._said()
            return None
        assert process.pid is not None
        os.kill(process.pid, kind)
        process.join(60)
        assert process.exitcode is not None
        return process.exitcode or None  # a run may be over before it looks whether it was asked to stop

    def _seconds(self) -> float:
        """How long the undisturbed runs trained."""
        results = [json.loads((run / "result.json").read_text()) for run in runs_below(self.folder / "whole")]
        return sum(result["seconds"]["total"] for result in results)

    def _written(self) -> list[tuple[Path, int]]:
        """When the files that a run begins with, or goes on with, were written."""
        runs = runs_below(self.run)
        paths = [path for run in runs for path in (run / "config.json", run / "epochs.jsonl", *saved_states(run))]
        return [(path, path.stat().st_mtime_ns) for path in paths if path.exists()]

    def _to_the_end(self, command: list[str]) -> int:
        process = forked.start([*command, "--quiet"], self.log)
        process.join(300)
        assert process.exitcode is not None
        return process.exitcode

    def _where(self) -> str:
        """What it was doing, as far as its folder tells."""
        runs = runs_below(self.run)
        if not runs:
            return "before the run had begun"
        unfinished = [run for run in runs if not (run / "result.json").exists()]
        if not unfinished:
            return "between two runs"
        run = unfinished[0]
        if list(run.glob(".*.tmp")):
            return "while a file was being written"
        if not saved_states(run):
            return "before the first checkpoint"
        _, position = state(run)
        if position["epoch"] == position["step"] == 0:
            return "after the end of a stage was saved"
        return "in the middle of an epoch or of an evaluation"

    def _said(self) -> str:
        return self.log.read_text()[-300:] if self.log.exists() else ""
