"""Worker processes for what Python can do only one at a time: decoding files, augmenting image by image.

A worker is a fresh interpreter, not a fork: a fork would inherit the locks of threads that do not exist in it, and a
GPU that it must not touch. Nothing of the program that started it is imported again, so no `__main__` guard is needed.
It ends when its pipe closes, also if the program is killed.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from importlib import import_module
from typing import IO, Any

from procrustean.base.errors import ProcrusteanError, RunError
from procrustean.base.stop_signals import SIGNALS

_START = "import sys; sys.path[:] = {path!r}; from procrustean.data.worker_processes import work; work()"
_LENGTH = struct.Struct("<Q")


class WorkerPool:
    """Runs one function in worker processes. `run` is called from threads; a process is started when all are busy.

    Args:
        function: "module:name" of a function of one argument; argument and result can be pickled.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._all: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(self, job: Any) -> Any:
        """The function of `job`, computed by an idle worker or, if there is none, a new one."""
        if self._closed:
            raise RunError("the worker processes have been ended")
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._started()
        result = worker.ask(job)
        self._idle.put(worker)
        return result

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._closed = True
            workers, self._all = self._all, []
        for worker in workers:
            worker.end()

    def _started(self) -> _Worker:
        worker = _Worker(self._function)
        with self._lock:
            self._all.append(worker)
        return worker


class _Worker:
    def __init__(self, function: str) -> None:
        command = [sys.executable, "-c", _START.format(path=sys.path)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        _send(self._to, function)

    def ask(self, job: Any) -> Any:
        try:
            _send(self._to, job)
            failed, result = _receive(self._from)
        except (OSError, EOFError, ValueError) as error:
            code = self._process.wait()
            raise RunError(
                f"a worker process ended with exit code {code} in the middle of its work; "
                "if memory ran out, use fewer --workers"
            ) from error
        if isinstance(result, ProcrusteanError):
            raise result
        if failed:
            raise RuntimeError(f"in a worker process: {result}")
        return result

    def end(self) -> None:
        # A worker that waits for a job ends by itself; one in the middle of a job need not finish it.
        self._process.kill()
        self._process.wait()
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except OSError:
                continue


def work() -> None:
    """What a worker process does: answer one job after the other until its pipe is closed."""
    # Ctrl-C reaches the whole group of processes, and a scheduler signals all of a job. The program itself decides what
    # becomes of its workers, and needs them for the step after which it saves.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    jobs = sys.stdin.buffer
    try:
        module, _, name = str(_receive(jobs)).partition(":")
        function = getattr(import_module(module), name)
        while True:
            job = _receive(jobs)
            try:
                answer = (False, function(job))
            except ProcrusteanError as error:  # which a user can mend, so it is told as it is
                answer = (True, error)
            except Exception as error:
                answer = (True, f"{type(error).__name__}: {error}")
            _send(answers, answer)
    except (EOFError, BrokenPipeError):
        return


def _send(pipe: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=5)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)
