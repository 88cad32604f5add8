"""Processes that can be killed by the hundred: each is forked from one that has imported everything already."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import mock

#: A file beside the log that says that the command has begun, and not only its process.
STARTED = "started"

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "forked",
        "procrustean.cli.commands",
        "procrustean.data.npz",
        "procrustean.balance.mfw_module",
        "procrustean.runs.many_runs",
        "procrustean.report.comparison_table",
        "torch._dynamo",  # which torch imports when a network is first trained
    ]
)


def start(arguments: Sequence[str | Path], log: Path, before: Callable[..., None] | None = None) -> BaseProcess:
    """`procrustean ARGUMENTS` in a process of its own.

    Args:
        arguments: of the command line.
        log: where everything it prints goes.
        before: called in the process first; a function of a module.
    """
    log.with_name(STARTED).unlink(missing_ok=True)
    process = _CONTEXT.Process(target=_command, args=([*map(str, arguments)], log, before))
    # The server is not told where modules are and would quietly import nothing.
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        process.start()
    return process


def wait_for(condition: Callable[[], bool], process: BaseProcess, seconds: float = 60) -> bool:
    """Whether something comes true before the process ends."""
    deadline = time.monotonic() + seconds
    while not condition():
        if not process.is_alive():
            return condition()
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.002)
    return True


def _command(arguments: list[str], log: Path, before: Callable[..., None] | None) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    if before is not None:
        before()
    from procrustean.cli import main

    log.with_name(STARTED).touch()
    sys.exit(main(arguments))
