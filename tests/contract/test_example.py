"""The method that docs/methods.md writes passes these tests when it is added to the package as the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import procrustean
from page_blocks import blocks

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "methods.md"
#: A line of the table as the page indents it.
LINE = re.compile(r'^    "label_smoothing": Entry\(.*\),$', re.MULTILINE)


def add_example(package: Path) -> None:
    text = PAGE.read_text()
    (code,) = (block.code for block in blocks(text, PAGE.name) if block.text == "my_methods.py")
    (line,) = LINE.findall(text)
    (package / "methods" / "label_smoothing.py").write_text(code)
    table = package / "methods/table.py"
    table.write_text(table.read_text().removesuffix("}\n") + f"{line}\n}}\n")


def test_the_documented_method_passes_as_a_file_and_a_line_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "procrustean"
    shutil.copytree(Path(procrustean.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    add_example(package)
    tests = ["tests/contract/test_methods.py", "tests/data/test_publications.py"]
    first = f"{tests[0]}::TestTable::test_files_say_what_they_are[label_smoothing]"  # an error where there is none
    which = ["-k", "(label_smoothing or who_has_published) and not one_graph"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *which, first, *tests],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
