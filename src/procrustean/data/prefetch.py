"""Jobs done on threads ahead of the use of their results, which are handed over in the order of the jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Result = TypeVar("Result")

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
