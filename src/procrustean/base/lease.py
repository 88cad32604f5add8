"""One process at a time per folder: a lease that its holder keeps renewing, so that it ends however the process ends.

A lease is a file in the folder with the process and its host. It needs nothing of the file system but that a file is
created once, which network file systems promise, too; they may refuse the system's locks or keep them to one machine.
The lease of a process of this machine that was killed is taken over at once, any other after `PATIENCE` seconds without
a sign of life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import SoftFileLease, Timeout

from procrustean.base.errors import CannotWrite, RunError

MARKER = ".in-use"
BEAT = 1.0  # seconds between two renewals, and the longest that a process waits to see whether another one lives
PATIENCE = 30.0


class RunInUse(RunError):
    """Another process is training this run."""


class Claim:
    """Holds a folder until it is released or the process ends, also by a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lease = SoftFileLease(
            folder / MARKER, lease_duration=PATIENCE, heartbeat_interval=BEAT, thread_local=False
        )
        try:
            _acquire(self._lease, _renewed(folder / MARKER))
        except Timeout:
            raise RunInUse(
                f"{folder} is being trained by another process; wait for it, or stop it and give the command again"
            ) from None
        except OSError as error:
            raise CannotWrite(
                f"cannot write in {folder} ({error.strerror or error}); make room or allow writing there"
            ) from error

    def check(self) -> None:
        """RunInUse if the folder is held no more, as after a pause in which another process has taken it over."""
        owner = self._lease.owner
        if owner is None or owner.token != self._lease.token:
            raise RunInUse(
                f"{self._folder} is no longer held by this process: it gave no sign of life for {PATIENCE:.0f} seconds "
                f"and another took over, or {MARKER} was removed. This one writes nothing more there"
            )

    def release(self) -> None:
        self._lease.release()


@contextmanager
def in_turn(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a folder meanwhile; where another process does, wait for it, and say so once."""
    claim = _claim(folder)
    if claim is None:
        waiting()
    while claim is None:
        claim = _claim(folder)
    try:
        yield
    finally:
        claim.release()


def _claim(folder: Path) -> Claim | None:
    try:
        return Claim(folder)
    except RunInUse:  # which it takes a moment to find
        return None


def _acquire(lease: SoftFileLease, renewed: Callable[[], bool]) -> None:
    try:
        lease.acquire(timeout=PATIENCE + 2 * BEAT, cancel_check=renewed)
    except Timeout:
        if renewed():
            raise
        # Network file systems cannot exchange two files, without which the library never takes over. Should another
        # process do this at the same time, one of the two finds at its first `check` that it holds nothing.
        lease.force_break()
        lease.acquire(blocking=False)


def _renewed(marker: Path) -> Callable[[], bool]:
    """Tells whether whoever holds a lease has renewed it since this function was called."""
    before = _written(marker)
    return lambda: _written(marker) not in (before, None)


def _written(marker: Path) -> int | None:
    try:
        return marker.stat().st_mtime_ns
    except FileNotFoundError:
        return None
