"""Stop on request: the first signal lets the run save itself, the second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: By hand, by the system, when a terminal is closed, by schedulers before a time limit. Windows has only the first two.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


class Interrupted(Exception):
    """The program was asked to stop; what can be saved is saved."""


class StopRequest:
    """Whether, and by which signal, the program was asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The conventional code of a program ended by that signal: 128 + its number."""
        return 128 + (self.signal or signal.SIGINT)


#: Those that are listened to.
_HEARD: list[StopRequest] = []


def heed_stop() -> None:
    """Raise `Interrupted` if the program was asked to stop: for long work in which there is nothing to save."""
    if any(request() for request in _HEARD):
        raise Interrupted


@contextmanager
def stop_on_signal(say: Callable[[str], None]) -> Iterator[StopRequest]:
    """Within it, the first signal sets the request instead of killing the program.

    From then on signals have the effect they had before: by default a second SIGTERM or SIGUSR1 ends the program in
    the kernel, whatever it is doing, and a second SIGINT raises KeyboardInterrupt. SIGXCPU is ignored then, since the
    kernel repeats it every second beyond the limit. Outside the main thread it does nothing.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handler(number: int, frame: FrameType | None) -> None:
        request.signal = number
        restore()
        if hasattr(signal, "SIGXCPU"):
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        # The reader of our messages may have got the signal too and be gone (`2>&1 | tee log`), or be in the middle of
        # a message; saving matters more.
        with suppress(OSError, RuntimeError, ValueError):
            say(f"{signal.Signals(number).name}: saving, then stopping; once more to stop at once")

    def restore() -> None:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)

    before = {number: signal.signal(number, handler) for number in SIGNALS if not _is_kept_off(number)}
    _HEARD.append(request)
    try:
        yield request
    finally:
        _HEARD.remove(request)
        restore()


def _is_kept_off(number: int) -> bool:
    """Whether it says that the terminal is closed, which programs started by `nohup` ignore."""
    return number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN
