"""How many pixels are decoded at a time: large images wait for one another, small ones never do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from procrustean.base.memory import free_memory

#: What decoding a pixel takes at most: as it is in the file, upright and in RGB, four bytes each.
BYTES_PER_PIXEL = 12
#: The part of the free memory that decoding may take.
SHARE = 8


class DecodingRoom:
    """Room for the pixels that threads decode at the same time; an image larger than all of it is decoded alone."""

    def __init__(self) -> None:
        self._pixels = free_memory() // SHARE // BYTES_PER_PIXEL
        self._taken = 0
        self._left = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for so many pixels, and keep it meanwhile."""
        with self._left:
            self._left.wait_for(lambda: self._taken == 0 or self._taken + pixels <= self._pixels)
            self._taken += pixels
        try:
            yield
        finally:
            with self._left:
                self._taken -= pixels
                self._left.notify_all()
