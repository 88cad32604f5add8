"""Runs of every method, killed or stopped again and again at random moments, against runs that nothing disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import forked
from comparing import differences
from procrustean.methods import METHODS
from tally import Tally

#: What a process that was stopped in an orderly way exits with.
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 138}
#: Most disturbances of one run.
MOST = 12
#: Share of the kills that wait until the run trains; the others come at any time after the process has begun.
TRAINING = 0.9


def kills_and_signals(source: Path, folder: Path, count: int, seed: int, say: Callable[[str], None]) -> list[Tally]:
    """Disturb runs until so many processes were killed; one in five disturbances is a signal that asks to stop."""
    chance = random.Random(seed)
    kills, signals = Tally("kills (SIGKILL) at random moments"), Tally("signals (SIGINT, SIGTERM, SIGUSR1)")
    methods: list[str] = []
    number = 0
    while kills.injected < count:
        methods = methods or chance.sample(sorted(METHODS), len(METHODS))
        run = Disturbed(source, folder / str(number), methods.pop(), chance)
        run.disturb(min(MOST, count - kills.injected), kills, signals)
        number += 1
        say(f"{kills.injected} of {count} kills, {signals.injected} signals, {number} runs")
    kills.measured["runs"] = number
    return [kills, signals]


class Disturbed:
    """One run with its undisturbed twin."""

    def __init__(self, source: Path, folder: Path, method: str, chance: random.Random) -> None:
        self.folder, self.chance, self.method = folder, chance, method
        folder.mkdir(parents=True)
        self.run, self.log = folder / "run", folder / "log"
        self.settings = [
            "train",
            str(source),
            "--method",
            method,
            "--net",
            "small",
            "--epochs",
            str(chance.randint(6, 12)),
        ]
        self.settings += ["--batch-size", "16", "--device", "cpu", "--precision", chance.choice(["fp32", "bf16"])]
        self.settings += ["--hold-out", "2", "--seed", str(chance.randint(0, 99))]
        self.every = chance.choice(["0", "0", "0.05", "30"])

    def disturb(self, most: int, kills: Tally, signals: Tally) -> None:
        """Train it in spite of up to `most` disturbances, and compare it with its twin."""
        whole = self._to_the_end([*self.settings, "--run-dir", str(self.folder / "whole")])
        seconds = self._seconds() if whole == 0 else 0.0
        disturbances: list[tuple[Tally, str]] = []
        problem = "" if whole == 0 else f"{self.method}: the undisturbed run exits with {whole}: {self._said()}"
        while not problem and len(disturbances) < most and not (self.run / "result.json").exists():
            kind = self.chance.choice([signal.SIGKILL] * 4 + [self.chance.choice(list(CODES))])
            code = self._disturbed(kind, self.chance.uniform(0, seconds))
            if code is None:
                continue
            disturbances.append((kills if kind == signal.SIGKILL else signals, self._where()))
            if code not in (-kind, CODES.get(kind, -kind)):
                problem = f"{self.method}: exits with {code} after {kind.name}: {self._said()}"
        if not problem and not (self.run / "result.json").exists() and (code := self._to_the_end(self._command())):
            problem = f"{self.method}: cannot be resumed ({code}): {self._said()}"
        if not problem and (differing := differences(self.run, self.folder / "whole")):
            problem = f"{self.method}: {', '.join(differing)} differ after {len(disturbances)} disturbances"
        for tally, where in disturbances:
            tally.details[where] += 1
            if problem:
                tally.problems.append(problem)
            else:
                tally.survived += 1
        if problem and not disturbances:
            kills.problems.append(problem)

    def _command(self) -> list[str]:
        if (self.run / "config.json").exists():
            return ["resume", str(self.run)]
        return [*self.settings, "--checkpoint-every", self.every, "--run-dir", str(self.run)]

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
        """How long the undisturbed run trained."""
        seconds: float = json.loads((self.folder / "whole/result.json").read_text())["seconds"]["total"]
        return seconds

    def _written(self) -> list[int]:
        """When the files that a run begins with, or goes on with, were written."""
        paths = [self.run / name for name in ("config.json", "epochs.jsonl", "checkpoints.json")]
        return [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]

    def _to_the_end(self, command: list[str]) -> int:
        process = forked.start([*command, "--quiet"], self.log)
        process.join(300)
        assert process.exitcode is not None
        return process.exitcode

    def _where(self) -> str:
        """What the run was doing, as far as its folder tells."""
        if not (self.run / "config.json").exists():
            return "before the run had begun"
        if list(self.run.glob(".*.tmp")):
            return "while a file was being written"
        if not (self.run / "checkpoints.json").exists():
            return "before the first checkpoint"
        position = json.loads((self.run / "checkpoints.json").read_text())["checkpoints"][-1]["position"]
        if position["epoch"] == position["step"] == 0:
            return "after the end of a stage was saved"
        return "in the middle of an epoch or of an evaluation"

    def _said(self) -> str:
        return self.log.read_text()[-300:] if self.log.exists() else ""
