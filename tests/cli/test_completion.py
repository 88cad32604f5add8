"""What a shell offers to complete a command line with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

#: Asks the script's function as bash does when the tabulator is pressed behind the words.
ASK = """
source completion.bash
COMP_WORDS=(procrustean {words} "")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tyro_procrustean
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def offered(call: Call) -> Callable[[str], list[str]]:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    Path("completion.bash").write_text(call("--tyro-print-completion", "bash").out)

    def ask(words: str) -> list[str]:
        asked = subprocess.run(["bash", "-c", ASK.format(words=words)], capture_output=True, text=True, check=True)
        return asked.stdout.split()

    return ask


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("train digits --imbalance", ["natural", "long_tailed", "step"]),
        ("compare runs --format", ["table", "markdown", "csv", "latex"]),
        ("paper toy --net", ["resnet32-2d", "small-2d"]),
        ("list", ["methods", "nets", "layers", "recipes", "sources"]),
    ],
)
def test_the_values_of_an_option_with_a_fixed_list(
    words: str, names: list[str], offered: Callable[[str], list[str]]
) -> None:
    assert {word for word in offered(words) if not word.startswith("-")} == set(names)


def test_what_is_offered_is_not_all_that_is_read(call: Call) -> None:
    described = call("data", "describe", "digits", "--imbalance", "long-tailed", "--rho", "20")
    assert described.code == 0, described.err
