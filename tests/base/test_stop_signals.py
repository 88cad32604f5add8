"""A signal ends long work that has nothing to save."""

from __future__ import annotations

import signal

import pytest

from procrustean.base.progress import Headway
from procrustean.base.stop_signals import Interrupted, stop_on_signal


def test_long_work_ends_where_a_signal_asks_for_it() -> None:
    headway = Headway(lambda *progress: None, "reading", 4)
    headway.done(1)
    with stop_on_signal(lambda text: None):
        headway.done(1)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            headway.done(1)
    headway.done(1)  # who asked then asks nobody any more
