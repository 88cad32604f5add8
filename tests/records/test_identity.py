"""Which runs are of one setting."""

from __future__ import annotations

from procrustean.base.code_files import file_code
from procrustean.records.groups import Result
from procrustean.records.identity import setting_of


def test_results_are_of_one_setting_where_the_code_is_the_same() -> None:
    def setting(method: str) -> dict[str, object]:
        own = file_code(method)
        assert own is not None
        record = {
            "label": "Tempered",
            "config": {"method": method},
            "recipe": {},
            "data": {"source": "digits"},
            "method": {"name": own.plain, "sha256": own.sha256, "options": {}},
            "selections": {"last": {"metrics": {"headline": "accuracy"}}},
        }
        return setting_of(Result(record, None))

    here, there, edited = "mine.py:f@" + 64 * "a", "lab/mine.py:f@" + 64 * "a", "mine.py:f@" + 64 * "b"
    assert setting(here) == setting(there) != setting(edited)
