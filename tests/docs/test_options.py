"""Every option of the program stands on a page, and extras are installed as the README says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from procrustean.cli.commands import COMMANDS, GROUPS, parse

PROJECT = Path(__file__).resolve().parents[2]
PAGES = "\n".join(page.read_text() for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))))
OPTION = re.compile(r"^\W*(?:-\w, )?(--[a-z][a-z-]+)", re.MULTILINE)


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, kind in COMMANDS.items():
        if name in GROUPS:
            (choices,) = get_type_hints(kind, include_extras=True).values()
            found += [(name, choice.__metadata__[0].name) for choice in get_args(choices)]
        else:
            found.append((name,))
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_options_are_documented(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse([*command, "--help"])
    assert end.value.code == 0
    options = set(OPTION.findall(capsys.readouterr().out)) - {"--help"}
    assert not [option for option in sorted(options) if not re.search(rf"{option}(?![\w-])", PAGES)]


def test_extras_are_installed_into_the_clone_with_the_tested_versions() -> None:
    """Without -e a copy of the library would take the place of the one in use."""
    commands = re.findall(r"pip install [^`\n]*'\.\[\w+\]'", PAGES)
    assert len(commands) > 5
    assert {command.rpartition(" ")[0] for command in commands} == {"pip install -c constraints.txt -e"}
