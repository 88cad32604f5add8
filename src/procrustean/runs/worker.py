"""A process that works on one task after the other, tells how far it is, and can be asked to stop.

loky starts it as a fresh interpreter, which does not run the user's script again, and finds out when it dies.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, cast

from joblib.externals.loky import ProcessPoolExecutor

from procrustean.base.progress import Reporter

#: What a process does: it is given where its progress goes, and what says whether to save and end.
Task = Callable[[Reporter, Callable[[], bool]], Any]

#: Seconds without a task after which a process ends, as one does whose program was killed.
IDLE = 5


class Worker:
    """Such a process, seen from the program. It has one thread, unless OMP_NUM_THREADS says otherwise."""

    def __init__(self) -> None:
        self._ours, self._theirs = Pipe()
        self._pool = ProcessPoolExecutor(
            max_workers=1,
            initializer=_begin,
            initargs=(self._theirs,),
            env={"OMP_NUM_THREADS": "1", **os.environ},
            timeout=IDLE,
        )
        self.asked = False  # whether it was asked to stop

    def give(self, task: Task) -> Future[Any]:
        """Begin a task; the future has a BrokenProcessPool if the process dies."""
        with _left_to_the_program():
            return cast("Future[Any]", self._pool.submit(_work, task))

    def show(self, reporter: Reporter) -> None:
        """Show what it has told meanwhile."""
        with suppress(EOFError):
            while self._ours.poll():
                name, arguments = self._ours.recv()
                getattr(reporter, name)(*arguments)

    def ask_to_stop(self) -> None:
        if not self.asked:
            self.asked = True
            self._ours.send("stop")

    def end(self, *, at_once: bool = False) -> None:
        """End the process; if need be, in the middle of its task."""
        self._pool.shutdown(wait=True, kill_workers=at_once)
        self._ours.close()
        self._theirs.close()


@contextmanager
def _left_to_the_program() -> Iterator[None]:
    """A Ctrl-C reaches all processes of a terminal; one that is being started is not to die of it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Calls:
    """In the process: sends the calls of a reporter to the program.

    Args:
        pipe: to the program.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __getattr__(self, name: str) -> Callable[..., None]:
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Any) -> None:
        with suppress(OSError):  # the program is gone, and the task is about to be told to stop
            self._pipe.send((name, arguments))


_pipe: Connection


def _begin(pipe: Connection) -> None:
    global _pipe
    _pipe = pipe
    os.dup2(2, 1)  # what libraries print is not part of what the program answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _work(task: Task) -> Any:
    # There is something to read once the program asks to stop, and when it is gone.
    result = task(cast(Reporter, _Calls(_pipe)), _pipe.poll)
    if _pipe.poll():
        try:
            _pipe.recv()
        except (EOFError, OSError):
            os._exit(1)  # else it would wait for tasks of a program that is gone
    return result
