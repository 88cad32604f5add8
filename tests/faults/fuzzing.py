"""Every reader against files that hypothesis damages."""

from __future__ import annotations

import random
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from damage import damaged, damages, with_other_value
from procrustean.base import ProcrusteanError
from readers import READERS, Reader, write
from tally import Tally

SECONDS = 10.0  # that a file may take at most
MEGABYTES = 300.0  # by which the memory may grow at most


def fuzz(folder: Path, examples: int, number: int, say: Callable[[str], None]) -> Tally:
    """So many damaged files for each reader: each is read, or refused with an error of the library."""
    tally, began = Tally("files for every reader, mutated"), peak_megabytes()
    for name, reader in READERS.items():
        place = folder / str(len(tally.details))
        place.mkdir(parents=True)
        before = tally.injected
        attempt(reader, place, examples, number, tally)
        tally.details[name] = tally.injected - before
        say(f"{name}: {tally.injected - before} files")
    grown = peak_megabytes() - began
    tally.measured["memory growth at its peak, MB"] = round(grown, 1)
    if grown > MEGABYTES:
        tally.problems.append(f"the memory grew by {grown:.0f} MB")
    return tally


def attempt(reader: Reader, folder: Path, examples: int, number: int, tally: Tally) -> None:
    valid = reader.make()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(damages)
    def one(drawn: Any) -> None:
        changes, (place, value) = drawn
        if reader.text:
            read(reader, with_other_value(valid, reader.name, place, value), folder, tally)
        read(reader, damaged(valid, changes), folder, tally)

    one()


def read(reader: Reader, content: bytes, folder: Path, tally: Tally) -> None:
    path, began = write(reader, content, folder), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.read(path)
            tally.survived += 1
        except ProcrusteanError:
            tally.refused += 1
        except Exception as error:
            tally.problems.append(f"{reader.name}: {type(error).__name__}: {error!s:.200}")
    if time.monotonic() - began > SECONDS:
        tally.problems.append(f"{reader.name}: took {time.monotonic() - began:.0f} s")


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_number() -> int:
    return random.SystemRandom().randrange(1 << 31)
