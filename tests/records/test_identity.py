"""Which runs are of one setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from procrustean.records.identity import Setting, setting_of
from procrustean.records.run_record import Result, load_result

STORED = Path(__file__).parents[2] / "results" / "analysis" / "step-mfw"


def test_results_are_of_one_setting_where_the_code_is_the_same() -> None:
    def setting(method: str) -> Setting:
        config = replace(load_result(STORED).config, method=method)
        return setting_of(Result(msgspec.structs.replace(load_result(STORED).record, config=config)))

    here, there, edited = "mine.py:f@" + 64 * "a", "lab/mine.py:f@" + 64 * "a", "mine.py:f@" + 64 * "b"
    assert setting(here) == setting(there) != setting(edited)
