from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from procrustean.cli.lists import reflow
from procrustean.methods import METHODS
from procrustean.methods.make import factory

Call = Callable[..., Any]
WIDTHS = (40, 80, 100, 140)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", WIDTHS)
def test_every_docstring_fits_the_width_and_loses_nothing(width: int) -> None:
    for name in METHODS:
        docstring = inspect.getdoc(factory(name)) or ""
        shown = reflow(docstring, width)
        assert shown.split() == docstring.split()
        assert max(map(len, shown.splitlines())) <= width, name


def test_paragraphs_are_filled_and_arguments_hang(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list", "methods", "oltr").out.splitlines()
    assert lines[lines.index("Args:") :][:4] == [
        "Args:",
        "    plain_gradient: move M by the gradient of the formula; by default as the",
        "        authors' code does, where that of attract is the sum of (m_c - v) / B",
        "        over the n images of the class, divided by 1 + n, without the 0.01.",
    ]
    monkeypatch.setenv("COLUMNS", "100")
    assert "    plain_gradient: move M by the gradient of the formula; by default as the authors' code does," in (
        call("list", "methods", "oltr").out.splitlines()
    )


def test_lines_of_a_formula_stay_and_are_continued_with_an_indent(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def formula(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        text: str = call("list", "methods", "mfw").out
        return text[text.index("Formula:") : text.index("\n\nArgs:")].splitlines()

    assert formula(80) == [
        "Formula: z~_i = (1 - l_i) z_i + l_i z_p(i), l_i = s(N_yi) * Beta(alpha, alpha),",
        "    label y_i kept;",
        "s(N_c) = 0.5 * sigmoid((N_c - mu) / (beta * gamma)), mu the geometric mean of",
        "    the N_c, gamma their standard deviation.",
    ]
    assert [line.split()[0] for line in formula(140)] == ["Formula:", "s(N_c)"]


def test_a_terminal_of_unknown_width_has_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wanted = call("list", "methods", "mfw").out
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError))
    assert call("list", "methods", "mfw").out == wanted


def test_the_list_hangs_on_a_terminal_and_has_one_line_each_elsewhere(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(call("list", "methods").out.splitlines()) == len(METHODS) + 2
    from procrustean.cli import main

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["list", "methods"]) == 0
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line and line[0] != " "]
    assert names == [*METHODS, "procrustean"]
