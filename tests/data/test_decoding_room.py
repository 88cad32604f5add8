from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from procrustean.data import decoding_memory as decoding_room
from procrustean.data.decoding_memory import BYTES_PER_PIXEL, SHARE, DecodingRoom


@pytest.mark.parametrize(("pixels", "together"), [(10, 8), (40, 2), (60, 1), (500, 1)])
def test_large_images_wait_for_one_another(pixels: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_room, "free_memory", lambda: 100 * BYTES_PER_PIXEL * SHARE)
    room, now, most, lock = DecodingRoom(), 0, 0, threading.Lock()

    def decode(number: int) -> int:
        nonlocal now, most
        with room.taken(pixels):
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.02)
            with lock:
                now -= 1
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decode, range(16))) == list(range(16))
    assert 1 <= most <= together
    assert together < 8 or most > 1


def test_an_image_that_fails_leaves_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_room, "free_memory", lambda: 100 * BYTES_PER_PIXEL * SHARE)
    room = DecodingRoom()
    for _ in range(3):
        with pytest.raises(OSError, match="truncated"), room.taken(500):
            raise OSError("truncated")
