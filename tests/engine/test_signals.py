"""Signals to a real process: the first saves, the second ends it at once, whatever it is doing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import forked
from procrustean.runs import fit
from procrustean.runs.train_api import resume
from saved_states import saved_states

Same = Callable[[Path, Path], None]


def arguments(npz: Path, path: Path, epochs: int = 3) -> list[str | Path]:
    flags = (
        "--net",
        "small",
        "--batch-size",
        "16",
        "--precision",
        "fp32",
        "--device",
        "cpu",
        "--method",
        "erm",
        "--hold-out",
        "0",
    )
    return ["train", npz, *flags, "--epochs", str(epochs), "--run-dir", path]


def hang_in_the_first_epoch(number: int) -> None:
    """Lets the process send itself a signal at the end of the first epoch and then wait in the system."""
    from procrustean.base.progress import PlainReporter

    def hang(self: PlainReporter, name: str, epoch: int, record: dict[str, Any]) -> None:
        os.kill(os.getpid(), number)
        self.say("hanging")
        time.sleep(60)

    PlainReporter.epoch_done = hang  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGUSR1, signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGTERM, signal.SIGUSR1, -signal.SIGUSR1),
    ],
    ids=["INT INT", "USR1 TERM", "TERM USR1"],
)
def test_a_second_signal_ends_a_process_that_hangs(
    first: int, second: int, code: int, npz: Path, tiny: dict[str, Any], tmp_path: Path, same_run: Same
) -> None:
    log = tmp_path / "log"
    process = forked.start(arguments(npz, tmp_path / "run"), log, partial(hang_in_the_first_epoch, first))
    assert forked.wait_for(lambda: log.exists() and "hanging" in log.read_text(), process), log.read_text()
    assert process.pid is not None
    os.kill(process.pid, second)
    process.join(5)
    assert process.exitcode == code, log.read_text()
    assert "saving, then stopping; once more to stop at once" in log.read_text()
    assert "Traceback" not in log.read_text()
    # Nothing was saved yet; the run starts again and ends as it would have.
    same_run(resume(tmp_path / "run").path, fit(str(npz), **tiny, run_dir=tmp_path / "whole").path)


def lose_the_log() -> None:
    """Lets everything that the process writes go into a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    for stream in (1, 2):
        os.dup2(writer, stream)


def test_a_run_whose_log_is_gone_is_saved_all_the_same(npz: Path, tmp_path: Path) -> None:
    """As in `procrustean train ... 2>&1 | tee log`, where Ctrl-C ends tee too."""
    run = tmp_path / "run"
    process = forked.start(arguments(npz, run, epochs=5000), tmp_path / "log", lose_the_log)
    assert forked.wait_for((run / "epochs.jsonl").exists, process)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(30)
    assert process.exitcode == 130
    assert len(saved_states(run)) == 1
