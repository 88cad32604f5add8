"""The examples of CONTRIBUTING.md: the files and lines of a section, put into a copy of the package.

A block of code behind a paragraph that ends in "`PATH`:" is that file; behind "A line in `PATH`:" it is added at the
end of the table in that file, before the last closing bracket.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import procrustean

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "CONTRIBUTING.md"
BLOCK = re.compile(
    r"(?P<line>A line in )?`(?P<path>[\w./-]+\.\w+)`:\n\n```\w+\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Part:
    """A block of an example."""

    path: Path  # from the root of the repository
    code: str
    is_line: bool


def parts_of(heading: str) -> list[Part]:
    """The blocks of a section, such as "Add a method"."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = [Part(Path(m["path"]), m["code"], m["line"] is not None) for m in BLOCK.finditer(section)]
    assert found, f"CONTRIBUTING.md has no example under {heading!r}"
    return found


class Copy:
    """A copy of the package and of its tests, with the examples of some sections in it."""

    def __init__(self, folder: Path, *headings: str) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(procrustean.__file__).parent, folder / "src" / "procrustean", ignore=ignored)
        shutil.copytree(CHECKOUT / "tests", folder / "tests", ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(CHECKOUT / name, folder / name)
        for heading in headings:
            for part in parts_of(heading):
                self._add(part)

    def _add(self, part: Part) -> None:
        file = self.folder / part.path
        if not part.is_line:
            assert not file.exists(), f"{part.path} is there already"
            file.write_text(part.code)
            return
        before, bracket, behind = file.read_text().rpartition("\n}")
        assert bracket, f"{part.path} has no table that ends in a bracket at the beginning of a line"
        file.write_text(f"{before}\n{part.code.rstrip()}{bracket}{behind}")

    def passed(self, *arguments: str) -> str:
        """The tests that pass when pytest runs in the copy; an error with what it says if one fails."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-vv", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
