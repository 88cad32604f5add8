"""Stop on request: the first signal lets the run save itself, the second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM) + ((signal.SIGUSR1,) if hasattr(signal, "SIGUSR1") else ())


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


@contextmanager
def stop_on_signal(say: Callable[[str], None]) -> Iterator[StopRequest]:
    """Within it, signals set the request instead of killing the program; outside the main thread it does nothing."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if request():
            raise KeyboardInterrupt
        request.signal = number
        say(f"{signal.Signals(number).name}: saving, then stopping; once more to stop at once")

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, old in before.items():
            signal.signal(number, old)
