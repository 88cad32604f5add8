"""The minutes that a call may take, of which some seconds are kept back to save what is in progress."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds kept back, and at most this share of the time.
SAVING, MOST_KEPT_BACK = 8.0, 0.1


class TimeBox:
    """Says when the time is up.

    Args:
        minutes: that the call may take; None for as many as it needs.
        clock: seconds of a clock that never goes back.
        began: time of the clock from which the minutes count; now, if nothing is said.
    """

    def __init__(
        self, minutes: float | None, clock: Callable[[], float] = time.monotonic, began: float | None = None
    ) -> None:
        self._clock = clock
        self._seconds = 0.0 if minutes is None else 60 * minutes
        began = clock() if began is None else began
        #: Time of the clock at which the call ends; None for never.
        self.deadline = None if minutes is None else began + self._seconds

    def is_over(self) -> bool:
        """Whether to begin nothing more, and to save."""
        kept_back = min(SAVING, MOST_KEPT_BACK * self._seconds)
        return self.deadline is not None and self._clock() >= self.deadline - kept_back

    def leaves(self, seconds: float) -> bool:
        """Whether there is time for so long."""
        return self.deadline is None or self._clock() + seconds <= self.deadline
