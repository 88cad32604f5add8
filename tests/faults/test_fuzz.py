"""Damaged files of every kind are read, or refused with an error of the library; nothing else happens."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from damage import damaged, damages, with_other_value
from procrustean.base import ProcrusteanError
from readers import READERS, write

EXAMPLES = 15  # of each kind; `make faults` tries more
SECONDS = 10.0


@pytest.mark.parametrize("kind", READERS)
def test_a_valid_file_is_read(kind: str, tmp_path: Path) -> None:
    reader = READERS[kind]
    assert reader.read(write(reader, reader.make(), tmp_path)) is not None


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_read_or_refused(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    reader, valid, folder = READERS[kind], READERS[kind].make(), tmp_path_factory.mktemp("fuzz")

    @settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(damages)
    def attempt(damage: Any) -> None:
        changes, (place, value) = damage
        if reader.text:
            read(with_other_value(valid, reader.name, place, value))
        read(damaged(valid, changes))

    def read(content: bytes) -> None:
        began = time.monotonic()
        with warnings.catch_warnings(), suppress(ProcrusteanError):
            warnings.simplefilter("ignore")
            reader.read(write(reader, content, folder))
        assert time.monotonic() - began < SECONDS

    attempt()
