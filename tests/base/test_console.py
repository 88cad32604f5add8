from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TextIO, cast

import msgspec
import pytest
from rich.console import Console
from rich.text import Text

from procrustean.base.console import ProgressStream, duration_text, write_result
from procrustean.base.epochs import EpochRecord, Evaluated
from procrustean.base.progress import PlainReporter, Reporter, RichReporter, make_reporter
from procrustean.base.table_formats import Cell, Column, Table

RECORD = EpochRecord(stage=0, epoch=0, loss=0.5, lr=0.1, images_per_second=12345.6)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def with_test(accuracy: float) -> EpochRecord:
    tested = Evaluated(headline="accuracy", accuracy=accuracy, balanced_accuracy=0.5, recall=[])
    return msgspec.structs.replace(RECORD, test=tested)


def run(reporter: Reporter, clock: Clock, epochs: int, seconds_per_epoch: float, first_epoch: int = 0) -> None:
    reporter.run_started("ERM", epochs, first_epoch)
    for epoch in range(first_epoch, epochs):
        clock.now += seconds_per_epoch
        reporter.epoch_done("ERM", epoch, RECORD)


def plain_lines(epochs: int, seconds_per_epoch: float, first_epoch: int = 0) -> list[str]:
    clock, stream = Clock(), io.StringIO()
    run(PlainReporter(stream, clock), clock, epochs, seconds_per_epoch, first_epoch)
    return stream.getvalue().splitlines()


def epochs_of(lines: list[str]) -> list[int]:
    return [int(line.split("epoch ")[1].split("/")[0]) for line in lines[1:]]


def test_plain_lines_come_about_every_tenth_of_the_epochs() -> None:
    lines = plain_lines(300, seconds_per_epoch=1.5)
    assert lines[0] == "ERM: 300 epochs"
    assert epochs_of(lines) == [1 + 30 * i for i in range(10)]


def test_a_slow_run_is_never_silent_for_long() -> None:
    assert epochs_of(plain_lines(300, seconds_per_epoch=25))[:4] == [1, 4, 7, 10]
    assert epochs_of(plain_lines(20, seconds_per_epoch=90)) == list(range(1, 21))


@pytest.mark.parametrize("epochs", [1, 2, 5, 7, 13, 300])
def test_plain_lines_come_at_most_once_a_second(epochs: int) -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", epochs, 0)
    times = [clock.now]
    for epoch in range(epochs):
        clock.now += 0.3
        before = stream.tell()
        reporter.epoch_done("ERM", epoch, RECORD)
        if stream.tell() > before:
            times.append(clock.now)
    assert all(later - earlier >= 1 for earlier, later in pairwise(times))
    assert len(times) <= 12
    assert len(times) > 1 or epochs * 0.3 < 1


def test_a_line_held_back_by_the_second_comes_with_a_later_epoch() -> None:
    assert len(plain_lines(100, seconds_per_epoch=0.01)) == 1 + 1


def test_a_plain_line_tells_loss_accuracy_speed_and_time_left() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("MFW-DRW", 100, 0)
    clock.now += 2
    reporter.epoch_done("MFW-DRW", 0, with_test(0.8125))
    clock.now += 18
    reporter.epoch_done("MFW-DRW", 9, RECORD)
    clock.now += 2
    reporter.epoch_done("MFW-DRW", 10, RECORD)
    assert stream.getvalue().splitlines()[1:] == [
        "MFW-DRW: epoch 1/100, loss 0.500, test accuracy 81.2 %, 12,346 images/s, 3 min 18 s left",
        "MFW-DRW: epoch 11/100, loss 0.500, test accuracy 81.2 %, 12,346 images/s, 2 min 58 s left",
    ]


def test_within_a_long_epoch_a_line_tells_how_far_it_is() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 300, 0)
    for second in range(83):
        reporter.within_epoch("ERM", 0, second / 83)
        clock.now += 1
    reporter.epoch_done("ERM", 0, RECORD)
    _, *told, last = stream.getvalue().splitlines()
    assert told == ["ERM: 36 % of epoch 1/300", "ERM: 72 % of epoch 1/300"]
    assert last.startswith("ERM: epoch 1/300, loss 0.500")


def test_within_short_epochs_nothing_is_told() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 9, 0)
    for epoch in range(9):
        clock.now += 25
        reporter.within_epoch("ERM", epoch, 0.9)
        clock.now += 3
        reporter.epoch_done("ERM", epoch, RECORD)
    assert "%" not in stream.getvalue()


def test_long_reading_has_a_line_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    for done in range(0, 80_001, 1000):
        reporter.reading("looking at images", done, 80_000)
        clock.now += 1
    assert stream.getvalue().splitlines() == [
        "looking at images: 30,000 of 80,000",
        "looking at images: 60,000 of 80,000",
    ]


def test_reading_has_a_bar_that_goes_when_all_is_read() -> None:
    reporter, _ = rich_reporter()
    reporter.reading("looking at images", 20, 100)
    assert reporter._progress is not None
    assert reporter._progress.tasks[0].completed == 20
    reporter.reading("looking at images", 100, 100)
    assert reporter._progress is None


def test_a_bar_moves_within_an_epoch() -> None:
    reporter, _ = rich_reporter()
    reporter.run_started("ERM", 10, 2)
    reporter.within_epoch("ERM", 2, 0.25)
    assert reporter._progress is not None
    assert reporter._progress.tasks[0].completed == 2.25
    reporter.close()


def test_the_held_out_result_is_told_where_there_is_no_test_result() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 2, 0)
    clock.now += 2
    held_out = Evaluated(headline="accuracy", accuracy=0.9, balanced_accuracy=0.75, recall=[])
    reporter.epoch_done("ERM", 0, msgspec.structs.replace(RECORD, held_out=held_out))
    assert "loss 0.500, held-out balanced accuracy 75.0 %, " in stream.getvalue()


def test_a_resumed_run_estimates_from_its_own_epochs() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 100, 80)
    for epoch, seconds in enumerate([4] * 20, 80):
        clock.now += seconds
        reporter.epoch_done("ERM", epoch, RECORD)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "ERM: 100 epochs, going on after 80"
    assert lines[1] == "ERM: epoch 81/100, loss 0.500, 12,346 images/s, 1 min 16 s left"
    assert lines[2] == "ERM: epoch 91/100, loss 0.500, 12,346 images/s, 36 s left"


def test_accuracy_is_forgotten_between_runs() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 2, 0)
    reporter.epoch_done("ERM", 0, with_test(0.5))
    run(reporter, clock, 2, seconds_per_epoch=2)
    assert "accuracy" not in stream.getvalue()


def test_plain_output_goes_to_stderr_and_is_flushed(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()
    reporter.say("on the CPU, because there is no GPU")
    reporter.run_finished("ERM", "accuracy 81.2 %")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "on the CPU, because there is no GPU\nERM: accuracy 81.2 %\n"


def rich_reporter() -> tuple[RichReporter, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, color_system=None, legacy_windows=False)
    return RichReporter(console), stream


def test_the_live_bar_shows_the_numbers_and_leaves_one_line() -> None:
    reporter, stream = rich_reporter()
    reporter.run_started("MFW [red]bold[/red]", 10, 2)
    reporter.epoch_done("MFW [red]bold[/red]", 2, with_test(0.75))
    reporter.epoch_done("MFW [red]bold[/red]", 3, RECORD)
    reporter.say("saved [1]")
    reporter.run_finished("MFW [red]bold[/red]", "accuracy 80.0 %")
    text = stream.getvalue()
    assert "MFW [red]bold[/red]" in text
    assert "4/10" in text
    assert "loss 0.500, test accuracy 75.0 %, 12,346 images/s" in text
    assert "saved [1]\n" in text
    assert text.rstrip("\n").endswith("✓ MFW [red]bold[/red]  accuracy 80.0 %")


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", ["MFW-DRW, step 20, seed 0", "MFW" * 50], ids=["usual", "long"])
def test_a_narrow_terminal_keeps_epochs_and_time_left(name: str, width: int) -> None:
    reporter = RichReporter(Console(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False))
    reporter.run_started(name, 300, 0)
    for epoch in range(20):
        reporter.epoch_done(name, epoch, with_test(0.48))
    assert reporter._progress is not None
    picture = Console(file=io.StringIO(), width=width, color_system=None)
    with picture.capture() as shown:
        picture.print(reporter._progress.get_renderable())
    reporter.close()
    line = shown.get().rstrip("\n")
    assert "\n" not in line
    assert len(line) <= width
    assert line.startswith(name[:27])
    assert " 20/300 " in line
    assert line[-7:].count(":") == 2, "the time left"
    assert width < 140 or "loss 0.500, test accuracy 48.0 %, 12,346 images/s" in line


def test_closing_in_the_middle_of_a_run_shows_the_cursor_again() -> None:
    reporter, stream = rich_reporter()
    reporter.run_started("ERM", 10, 0)
    assert "\x1b[?25l" in stream.getvalue()
    assert "\x1b[?25h" not in stream.getvalue()
    reporter.close()
    reporter.close()
    assert stream.getvalue().count("\x1b[?25h") == 1
    reporter.epoch_done("ERM", 0, RECORD)
    reporter.run_started("MFW", 10, 0)
    reporter.run_finished("MFW", "done")
    assert stream.getvalue().count("\x1b[?25h") == 2


def test_runs_that_take_turns_have_a_bar_each() -> None:
    reporter, stream = rich_reporter()
    for name in ("ERM", "MFW"):
        reporter.run_started(name, 10, 0)
    reporter.epoch_done("ERM", 4, with_test(0.25))
    reporter.epoch_done("MFW", 6, with_test(0.75))
    reporter.run_finished("ERM", "done")
    assert "\x1b[?25h" not in stream.getvalue(), "the other one goes on"
    reporter.run_finished("MFW", "done")
    text = stream.getvalue()
    assert text.count("\x1b[?25h") == 1
    assert "5/10" in text
    assert "7/10" in text
    assert "test accuracy 25.0 %" in text
    assert "test accuracy 75.0 %" in text


def test_lines_of_runs_that_take_turns_carry_their_own_names() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = PlainReporter(stream, clock)
    reporter.run_started("ERM", 10, 0)
    reporter.run_started("MFW", 20, 0)
    clock.now += 2
    reporter.epoch_done("ERM", 0, with_test(0.25))
    clock.now += 2
    reporter.epoch_done("MFW", 0, RECORD)
    first, second = stream.getvalue().splitlines()[2:]
    assert first.startswith("ERM: epoch 1/10, loss 0.500, test accuracy 25.0 %")
    assert second.startswith("MFW: epoch 1/20, loss 0.500, 12,346")


def test_a_run_of_the_same_name_as_a_finished_one_goes_on() -> None:
    stream = io.StringIO()
    reporter = PlainReporter(stream, Clock())
    for _ in range(2):
        reporter.run_started("ERM", 3, 0)
    for _ in range(2):
        reporter.epoch_done("ERM", 2, RECORD)
        reporter.within_epoch("ERM", 2, 0.5)
        reporter.run_finished("ERM", "done")
    assert stream.getvalue().count("ERM: done") == 2


def test_what_runs_share_is_said_once() -> None:
    stream = io.StringIO()
    reporter = PlainReporter(stream)
    for _ in range(3):
        reporter.say_once("on the CPU")
    assert stream.getvalue() == "on the CPU\n"


def test_the_reporter_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(make_reporter(), PlainReporter)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(make_reporter(), RichReporter)
    assert type(make_reporter(quiet=True)) is Reporter
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_reporter(), PlainReporter)


@pytest.mark.parametrize("kind", [PlainReporter, RichReporter])
def test_a_terminal_that_closes_does_not_end_a_run(
    kind: Callable[[], Reporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        reporter = kind()
        reporter.run_started("ERM", 3, 0)
        os.close(ours)
        reporter.say("class weights set in")
        reporter.epoch_done("ERM", 0, RECORD)
        reporter.run_finished("ERM", "done")
        reporter.close()


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stream_that_is_no_file_may_be_full() -> None:
    run(PlainReporter(Full()), Clock(), 3, 1)


class FullTee:
    """As programs write them that keep a copy of what is said: without the number of a file."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None: ...


def test_a_stream_without_a_number_may_be_full() -> None:
    run(PlainReporter(cast(TextIO, FullTee())), Clock(), 3, 1)


def test_a_stream_may_be_closed_by_the_program() -> None:
    stream = io.StringIO()
    reporter = PlainReporter(stream)
    reporter.say("begun")
    stream.close()
    reporter.say("goes on")


def test_text_that_a_stream_cannot_write_is_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        ProgressStream(io.TextIOWrapper(io.BytesIO(), encoding="ascii")).write("±")


def test_the_silent_reporter_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    reporter.say("anything")
    run(reporter, Clock(), 5, 1)
    reporter.run_finished("ERM", "done")
    reporter.close()
    assert capsys.readouterr() == ("", "")


TABLE = Table("Accuracy", (Column("method", "method", numeric=False),), ((Cell("81.2 ± 0.4", best=True),),))


def test_results_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("done")
    write_result(TABLE)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("done\n**Accuracy**")
    assert "| **81.2 ± 0.4** |" in captured.out


def test_a_table_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    write_result(TABLE)
    assert "81.2 ±0.4" in terminal.getvalue()
    assert "**" not in terminal.getvalue()


def test_results_survive_a_narrow_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    write_result(TABLE)
    assert b"81.2 ? 0.4" in raw.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.6, "1 h 0 min"), (90061, "25 h 1 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_run_that_begins_again_has_one_bar() -> None:
    reporter = RichReporter(Console(file=Terminal(), force_terminal=True, width=80))
    reporter.run_started("ERM", 10, 0)
    reporter.run_started("ERM", 10, 4)  # its process was replaced
    assert reporter._progress is not None
    assert [task.completed for task in reporter._progress.tasks] == [4]
    reporter.close()


def test_a_blank_line_parts_results_that_markdown_would_join(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("- a\n- b", TABLE, "Chosen: a", TABLE)
    parts = capsys.readouterr().out.split("\n\n")
    assert parts[0] == "- a\n- b"
    assert parts[1] == "**Accuracy**"
    assert parts[2].splitlines()[-1] == "| **81.2 ± 0.4** |"
    assert parts[3:5] == ["Chosen: a", "**Accuracy**"]


def drawn(terminal: Terminal) -> list[str]:
    return [line.rstrip() for line in Text.from_ansi(terminal.getvalue()).plain.splitlines()]


def test_one_blank_line_parts_results_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    write_result("- a", TABLE, "Chosen: a", "Trained:")
    lines = drawn(terminal)
    assert lines[:3] == ["- a", "", "Accuracy"]
    assert lines[-5:] == ["81.2 ±0.4", "", "Chosen: a", "", "Trained:"]


def test_what_stands_below_a_table_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    words = ["word"] * 70
    write_result(replace(TABLE, note=" ".join(words)), " ".join(words))
    lines = drawn(terminal)
    assert max(map(len, lines)) <= 60
    assert sum(line.split().count("word") for line in lines) == 140


COMMAND = f"procrustean train {'my images ' * 9!r} --on-bad-image skip"


@pytest.mark.parametrize("before", ["start with: ", "next:\n  "])
def test_a_command_to_copy_is_not_broken(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result, progress = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", result)
    write_result(before + COMMAND)
    RichReporter(Console(file=progress, force_terminal=True, width=60)).say(before + COMMAND)
    for terminal in (result, progress):
        assert terminal.getvalue() == f"{before}{COMMAND}\n"


def test_prose_that_names_a_command_is_wrapped() -> None:
    terminal = Terminal()
    RichReporter(Console(file=terminal, force_terminal=True, width=60)).say(
        "word " * 20 + "and procrustean list methods lists them"
    )
    assert max(map(len, drawn(terminal))) <= 60
