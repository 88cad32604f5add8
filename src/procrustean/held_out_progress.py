"""The progress of a run that is compared with others on held-out images."""

from __future__ import annotations

from typing import Any

from .console import Reporter


class HeldOutProgress:
    """Passes the progress of a run on without its test results: who saw them could choose by them."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def say(self, text: str) -> None:
        self._reporter.say(text)

    def say_once(self, text: str) -> None:
        self._reporter.say_once(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._reporter.run_started(name, epochs, first_epoch)

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        self._reporter.epoch_done(name, epoch, {key: value for key, value in record.items() if key != "test"})

    def run_finished(self, name: str, summary: str) -> None:
        self._reporter.run_finished(name, summary)

    def close(self) -> None:
        self._reporter.close()
