"""What nobody has foreseen ends in one line, with the way there in a file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.cli.lists import Methods

Call = Callable[..., Any]


def raising(error: BaseException) -> Callable[..., int]:
    def run(self: Methods) -> int:
        raise error

    return run


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_is_one_line_and_a_log(call: Call, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Methods, "run", raising(ZeroDivisionError("division\nby zero")))
    answer = call("list", "methods")
    assert (answer.code, answer.out) == (1, "")
    (log,) = logs.iterdir()
    assert answer.err.startswith("procrustean: ZeroDivisionError: division by zero. ")
    assert re.search(rf"in {re.escape(str(log))}\n\Z", answer.err)
    assert answer.err.count("\n") == 1
    assert log.read_text().startswith("Traceback")
    assert "in run\n" in log.read_text()


def test_with_debug_the_way_is_shown_too(call: Call, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Methods, "run", raising(ZeroDivisionError("zero")))
    answer = call("list", "methods", "--debug")
    assert answer.code == 1
    assert answer.err.startswith("Traceback")


def test_where_no_log_can_be_written_the_way_is_shown(call: Call, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.rmdir()
    monkeypatch.setattr(Methods, "run", raising(ZeroDivisionError("zero")))
    answer = call("list", "methods")
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert "ZeroDivisionError: zero. " in answer.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(5), 5), (RunError("none"), 2), (BrokenPipeError(), 141)]
)
def test_what_is_foreseen_keeps_its_way(
    error: BaseException, code: int, call: Call, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("procrustean.cli.abandon", lambda stream: None)
    monkeypatch.setattr(Methods, "run", raising(error))
    assert call("list", "methods").code == code
    assert not [*logs.iterdir()]
