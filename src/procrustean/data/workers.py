"""Work done ahead of its use: by threads, and by processes where Python does one thing at a time."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from procrustean.base.errors import RunError
from procrustean.base.stop_signals import SIGNALS

Result = TypeVar("Result")

#: Seconds without a job after which a process ends, as one does whose program was killed.
IDLE = 20

#: A job is handed the number of the slot whose buffers it may write to.
Job = Callable[[int], Result]


class Prefetcher(Generic[Result]):
    """Keeps up to `slots` jobs going; what the threads do in which order never shows in the results.

    Args:
        threads: how many jobs run at a time.
        slots: how many results may wait or be in use; job k writes to the buffers of slot k % slots. The result of a
            job may be used until the next one is taken.
    """

    def __init__(self, threads: int, slots: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="procrustean-feed")
        self._slots = slots
        self._jobs: Iterator[Job[Result]] = iter(())
        self._going: deque[Future[Result]] = deque()
        self._begun = 0

    def start(self, jobs: Iterator[Job[Result]]) -> None:
        """Drop what is left of earlier jobs and begin these."""
        self._drop()
        self._jobs, self._begun = jobs, 0
        self._fill(self._slots)

    def take(self) -> Result:
        """The result of the next job; waits for it. Raises what the job raised."""
        # The slot of the result taken before is free from now on.
        self._fill(self._slots)
        return self._going.popleft().result()

    def close(self) -> None:
        """End the threads; jobs that have not begun are dropped."""
        self._drop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self, slots: int) -> None:
        while len(self._going) < slots:
            job = next(self._jobs, None)
            if job is None:
                return
            self._going.append(self._pool.submit(job, self._begun % self._slots))
            self._begun += 1

    def _drop(self) -> None:
        self._jobs = iter(())
        while self._going:
            future = self._going.popleft()
            if not future.cancel():
                # A job that is running writes to a buffer: nobody else may before it is done.
                future.exception()


class WorkerPool:
    """Runs one function in processes; `run` is called from threads.

    Each is a fresh interpreter, not a fork: a fork would inherit the locks of threads that do not exist in it, and a
    GPU that it must not touch. The user's script is not run again in it.

    Args:
        function: of one argument; argument and result can be pickled.
        processes: how many jobs are done at a time.
    """

    def __init__(self, function: Callable[[Any], Any], processes: int) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self._function, self._closed = function, False
        environment = {"OMP_NUM_THREADS": "1"}
        self._pool = ProcessPoolExecutor(processes, initializer=_begin, env=environment, timeout=IDLE)

    def run(self, job: Any) -> Any:
        """The function of `job`; raises what it raised."""
        if self._closed:
            raise RunError("the worker processes have been ended")
        from joblib.externals.loky.process_executor import BrokenProcessPool

        try:
            with _signals_blocked():
                future = self._pool.submit(self._function, job)
            return future.result()
        except BrokenProcessPool as error:
            raise RunError(
                f"a worker process ended in the middle of its work; if memory ran out, use fewer --workers ({error})"
            ) from error

    def close(self) -> None:
        """End all processes; one in the middle of a job need not finish it."""
        self._closed = True
        self._pool.shutdown(wait=True, kill_workers=True)


def _begin() -> None:
    os.dup2(2, 1)  # what libraries print is not part of what the program answers
    # Ctrl-C reaches the whole group of processes, and a scheduler signals all of a job. The program itself decides what
    # becomes of its workers, and needs them for the step after which it saves.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """For processes that are started meanwhile: they are not to die before they have begun."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
