"""One process at a time per run: a lock on the run's folder that ends with the process, however it ends."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from ..errors import RunError


class RunInUse(RunError):
    """Another process is training this run."""


class Claim:
    """Holds a folder until it is released or the process ends, also by a kill; nothing is written for it.

    Where the system has no such locks (Windows, some network file systems) it holds nothing.
    """

    def __init__(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        self.release = weakref.finalize(self, os.close, handle)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise RunInUse(
                f"{folder} is being trained by another process; wait for it, or stop it and give the command again"
            ) from None
        except (ImportError, OSError):
            self.release()
