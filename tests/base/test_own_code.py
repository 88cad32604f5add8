"""Names of code in files."""

from __future__ import annotations

import pytest

from procrustean.base.own_code import FileCode, file_code, plain_name, short_identity


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mine.py:f", FileCode("mine.py", "f")),
        ("a b/c:d@e.py:f", FileCode("a b/c:d@e.py", "f")),
        ("mine.py:f@" + 64 * "a", FileCode("mine.py", "f", 64 * "a")),
        ("mine.py", FileCode("mine.py", "")),
        ("mine.py:f@abc", FileCode("mine.py", "f@abc")),
        ("C:\\lab\\mine.py:f", FileCode("C:\\lab\\mine.py", "f")),
        ("erm", None),
        ("auto", None),
    ],
)
def test_parts_of_a_name(name: str, parts: FileCode | None) -> None:
    assert file_code(name) == parts


def test_shorter_forms_of_a_name() -> None:
    assert plain_name("mine.py:f@" + 64 * "a") == "mine.py:f"
    assert short_identity("mine.py:f@" + 64 * "a") == "f@" + 12 * "a"
