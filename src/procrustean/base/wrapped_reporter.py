"""A reporter in front of another: what a kind of progress changes, it overrides."""

from __future__ import annotations

from typing import Any

from procrustean.base.console import Reporter, ShowsSteps


class PassingOn:
    """Hands everything on as it is."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner

    def say(self, text: str) -> None:
        self._inner.say(text)

    def say_once(self, text: str) -> None:
        self._inner.say_once(text)

    def warn(self, text: str) -> None:
        self._inner.warn(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self._inner.run_started(name, epochs, first_epoch)

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        self._inner.epoch_done(name, epoch, record)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        if isinstance(self._inner, ShowsSteps):
            self._inner.within_epoch(name, epoch, share)

    def run_finished(self, name: str, summary: str) -> None:
        self._inner.run_finished(name, summary)

    def close(self) -> None:
        self._inner.close()


class WithoutTest(PassingOn):
    """Leaves the test results out while runs are compared on held-out images: who saw them could choose by them."""

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        super().epoch_done(name, epoch, {key: value for key, value in record.items() if key != "test"})
