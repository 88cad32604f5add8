"""Pages, examples and tests of behaviour take public names from the rooms, as users do."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import procrustean

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = "|".join(path.parent.name for path in Path(procrustean.__file__).parent.glob("*/__init__.py"))
#: Of what the library does, whichever modules do it. Those of `tests/ROOM` may take what they test from its module.
BEHAVIOUR = ("contract", "dropin", "own_images", "own_methods", "docs")
TEXTS = [PROJECT / "README.md", *sorted(PROJECT.glob("docs/*.md")), *sorted(PROJECT.glob("examples/*.py"))]
TESTS = [path for folder in BEHAVIOUR for path in sorted((PROJECT / "tests" / folder).glob("*.py"))]

#: `procrustean.balance.MFW`, which may also be a module.
NAMED = rf"procrustean\.(?P<room>{ROOMS})\.(?P<names>\w+)"
#: `from procrustean.balance import MFW, DRW`, on one line or in brackets.
TAKEN = rf"from procrustean\.(?P<room>{ROOMS}) import (?P<names>\([^)]*\)|[^\n\\;#]*)"
IMPORTED = rf"(?:from|import) {NAMED}"


def hidden(text: str, *patterns: str) -> list[str]:
    """What a text names in a room that is no public name of the room."""
    found = []
    for pattern in patterns:
        for match in re.finditer(pattern, text):
            room = importlib.import_module(f"procrustean.{match['room']}")
            names = re.findall(r"(\w+)(?: as \w+)?", match["names"])
            found += [f"{match['room']}.{name}" for name in names if name not in getattr(room, "__all__", ["main"])]
    return found


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_pages_and_examples(path: Path) -> None:
    assert hidden(path.read_text(), NAMED, TAKEN) == []


@pytest.mark.parametrize("path", TESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_tests_of_behaviour(path: Path) -> None:
    """What they replace in a module for a while is no import."""
    assert hidden(path.read_text(), IMPORTED, TAKEN) == []


@pytest.mark.parametrize(
    "text",
    [
        "import procrustean.balance.mfw_module",
        "from procrustean.balance.mfw_module import MFW",
        "from procrustean.balance import MFW, mfw_module as module",
        "from procrustean.balance import (\n    MFW,\n    mfw_module,\n)\n",
    ],
)
def test_a_module_in_a_room_is_found(text: str) -> None:
    assert hidden(text, IMPORTED, TAKEN) == ["balance.mfw_module"]
