"""How the progress of a run in another process reaches the program, and that the run never waits for it."""

from __future__ import annotations

import json
import os
import select
from typing import Any

import pytest

from procrustean.base.process_progress import SPACING, Shown, Telling, write_or_drop
from procrustean.base.progress import Reporter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Heard(Reporter):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def say(self, text: str) -> None:
        self.calls.append(("said", text))

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self.calls.append(("started", name, epochs, first_epoch))

    def epoch_done(self, name: str, epoch: int, record: dict[str, Any]) -> None:
        self.calls.append(("epoch", name, epoch, record))

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        self.calls.append(("within", name, epoch, share))

    def run_finished(self, name: str, summary: str) -> None:
        self.calls.append(("finished", name, summary))


def record(loss: float, accuracy: float | None = None) -> dict[str, Any]:
    test = {"headline": "accuracy", "accuracy": accuracy, "recall": [0.5] * 1000}
    return {"loss": loss, "lr": 0.1, "images_per_second": 9.0, **({} if accuracy is None else {"test": test})}


def test_what_is_told_is_short_rare_and_has_the_newest_test_result() -> None:
    clock, told = Clock(), []
    telling = Telling(told.append, clock)
    telling.run_started("ERM", 40, 3)
    for epoch in range(3, 40):
        telling.epoch_done("ERM", epoch, record(epoch, epoch / 100 if epoch % 5 == 0 else None))
        clock.now += SPACING / 4
    started, *epochs = told
    assert started == {"name": "ERM", "epochs": 40, "first_epoch": 3}
    assert [message["epoch"] for message in epochs] == list(range(3, 40, 4))
    assert epochs[1]["record"] == {
        "loss": 7,
        "images_per_second": 9.0,
        "test": {"headline": "accuracy", "accuracy": 0.05},  # of epoch 5, whose own message was left out
    }
    assert max(len(json.dumps(message)) for message in told) < 300


def test_of_what_is_said_only_what_is_about_the_run_is_told() -> None:
    told: list[dict[str, Any]] = []
    telling = Telling(told.append)
    telling.say("ERM: too early")
    telling.run_started("ERM", 40, 0)
    telling.say("ERM: about 3 min an epoch")
    telling.say("stopping")
    telling.warn("odd")
    telling.say_once("on the cpu")
    telling.run_finished("ERM", "accuracy 80 %")
    assert [message.get("text") for message in told] == [None, "ERM: about 3 min an epoch"]
    assert (telling.warnings, telling.summary) == (["odd"], "accuracy 80 %")


def test_a_run_is_shown_from_any_message_on_and_anew_after_its_process_died() -> None:
    heard = Heard()
    shown = Shown(heard)
    assert not shown.finish("found finished")  # nothing was trained, so nothing was shown
    run = {"name": "ERM", "epochs": 4, "first_epoch": 0}
    shown.take({**run, "epoch": 1, "record": {"loss": 1.0}})  # the message before it was dropped
    shown.forget()
    shown.take({**run, "first_epoch": 2})
    shown.take({**run, "first_epoch": 2, "text": "ERM: about 2 s an epoch"})
    assert shown.finish("accuracy 80 %")
    assert heard.calls == [
        ("started", "ERM", 4, 0),
        ("epoch", "ERM", 1, {"loss": 1.0}),
        ("started", "ERM", 4, 2),
        ("said", "ERM: about 2 s an epoch"),
        ("finished", "ERM", "accuracy 80 %"),
    ]


def test_how_far_an_epoch_is_reaches_the_program() -> None:
    told: list[dict[str, Any]] = []
    telling, heard = Telling(told.append), Heard()
    telling.run_started("ERM", 40, 0)
    telling.within_epoch("ERM", 3, 0.25)
    shown = Shown(heard)
    for message in told:
        shown.take(message)
    assert heard.calls == [("started", "ERM", 40, 0), ("within", "ERM", 3, 0.25)]


@pytest.mark.parametrize("gone", [False, True])
def test_nobody_waits_for_a_reader_that_does_not_read(gone: bool) -> None:
    reader, writer = os.pipe()
    if gone:
        os.close(reader)
    for number in range(10_000):  # more than a pipe holds
        write_or_drop(writer, {"number": number})
    assert os.get_blocking(writer)  # the answer about the run will wait
    os.close(writer)
    if not gone:
        with os.fdopen(reader) as lines:
            numbers = [json.loads(line)["number"] for line in lines]
        assert 0 < len(numbers) < 10_000
        assert numbers == list(range(len(numbers)))  # no line is torn


def test_a_line_that_would_be_torn_is_not_written() -> None:
    reader, writer = os.pipe()
    write_or_drop(writer, {"name": "x" * select.PIPE_BUF})
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
