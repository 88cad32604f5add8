from __future__ import annotations

import statistics
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "procrustean"


def seconds_for_help() -> float:
    start = time.perf_counter()
    subprocess.run([COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


@pytest.mark.alone
def test_help_answers_within_half_a_second() -> None:
    seconds_for_help()  # fills the byte-code and file caches
    assert statistics.median(seconds_for_help() for _ in range(3)) < 0.5
