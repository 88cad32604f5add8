"""Every option of the program stands on a page, and extras are installed as the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from procrustean.cli.commands import leaves, parse

PROJECT = Path(__file__).resolve().parents[2]
PAGES = "\n".join(page.read_text() for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))))
OPTION = re.compile(r"^\W*(?:-\w, )?(--[a-z][a-z-]+)", re.MULTILINE)


@pytest.mark.parametrize("command", [words for words, _ in leaves()], ids=" ".join)
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
