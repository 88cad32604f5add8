"""The progress of a run that is trained in another process: few and short messages, shown by the program.

A message says all that is needed to show it, so that one that was lost changes nothing about the next.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from procrustean.base.progress import Reporter

#: Seconds between two messages about epochs of one run; a terminal shows no more than that.
SPACING = 0.25


class Telling(Reporter):
    """In the process that trains: tells how far its run is, and keeps what the answer about the run will say.

    Args:
        tell: sends a message, or drops it.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._run: dict[str, Any] = {}
        self._test: dict[str, Any] | None = None
        self._told = 0.0
        self.warnings: list[str] = []
        self.summary: str | None = None  # what came out

    def say(self, text: str) -> None:
        if self._run and text.startswith(f"{self._run['name']}: "):  # about this run, such as how long it will take
            self._tell({**self._run, "text": text})

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._run = {"name": name, "epochs": epochs, "first_epoch": first_epoch}
        self._tell(self._run)

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        if "test" in record:
            headline = record["test"]["headline"]
            self._test = {"headline": headline, headline: record["test"][headline]}
        now = self._clock()
        if now - self._told < SPACING:
            return
        self._told = now
        shown: dict[str, Any] = {key: record[key] for key in ("loss", "images_per_second") if key in record}
        if self._test is not None:
            shown["test"] = self._test
        self._tell({**self._run, "epoch": epoch, "record": shown})

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self._tell({**self._run, "epoch": epoch, "share": round(share, 4)})

    def run_finished(self, name: str, summary: str) -> None:
        self.summary = summary


class Shown:
    """In the program: shows the messages about one run.

    Args:
        reporter: where they are shown.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._name: str | None = None  # of the run, if it is being shown

    def take(self, message: dict[str, Any]) -> None:
        """Show one message."""
        name = message["name"]
        if self._name is None:
            self._name = name
            self._reporter.run_started(name, message["epochs"], message["first_epoch"])
        if "text" in message:
            self._reporter.say(message["text"])
        if "share" in message:
            self._reporter.within_epoch(name, message["epoch"], message["share"])
        if "record" in message:
            self._reporter.epoch_done(name, message["epoch"], message["record"])

    def finish(self, summary: str) -> bool:
        """Show what came out, if the run was being shown."""
        name, self._name = self._name, None
        if name is not None:
            self._reporter.run_finished(name, summary)
        return name is not None

    def forget(self) -> None:
        """Its process has stopped or died: the next message is from one that goes on with it."""
        self._name = None


def write_or_drop(pipe: int, message: dict[str, Any]) -> None:
    """Write a message as a line, unless the pipe is full: a training does not wait for whoever watches it.

    Args:
        pipe: its write end; no other thread writes to it.
        message: plain data.
    """
    line = json.dumps(message).encode() + b"\n"
    if len(line) > select.PIPE_BUF:  # only up to there a line is written as a whole or not at all
        return
    os.set_blocking(pipe, False)
    try:
        with suppress(OSError):  # full, or nobody is left to read
            os.write(pipe, line)
    finally:
        os.set_blocking(pipe, True)
