"""Names of classes and files as text and nothing else, wherever they are written: terminals, markdown, LaTeX, CSV."""

from __future__ import annotations

import math
import re

FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")

#: What markdown may read as more than itself. An underscore within a word is none of it, nor is an ampersand that
#: begins no entity or a "less than" before a space: they are frequent, and what is piped is read as it is, too.
MARKDOWN_SPECIAL = re.compile(r"[\\`*{}\[\]>#|~$]|<(?! )|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # where none opens before it
    "`": r"\textasciigrave{}",
    "±": r"$\pm$",
    "\N{GREEK SMALL LETTER RHO}": r"$\rho$",
    "—": "---",
    "·": r"$\cdot$",
    "✓": r"$\surd$",
    "≈": r"$\approx$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "†": r"\dag{}",
    "△": r"$(\uparrow)$",
    "▽": r"$(\downarrow)$",
    "[": "{[}",  # at the start of a row, these two would be read as arguments of the row end before it
    "*": "{*}",
}


def printable(text: str) -> str:
    """A text for a terminal; names of files and classes must not be able to drive it.

    >>> printable("two\\nlines of \\x1b[31mred")
    'two\\nlines of \ufffd[31mred'
    """
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def one_line(text: str) -> str:
    """A text for a cell of a table, in which newlines would break the row.

    >>> one_line("two\\nlines")
    'two lines'
    """
    return "".join(char if char.isprintable() else " " for char in text)


def markdown(text: str) -> str:
    """A text that markdown shows as it is, on one line.

    >>> markdown("[x](javascript:y) **b**")
    '\\\\[x\\\\](javascript:y) \\\\*\\\\*b\\\\*\\\\*'
    >>> markdown("MFW & co, max_margin=50, p < 0.05"), markdown("_b_ &lt; <i>")
    ('MFW & co, max_margin=50, p < 0.05', '\\\\_b\\\\_ \\\\&lt; \\\\<i\\\\>')
    """
    return MARKDOWN_SPECIAL.sub(r"\\\g<0>", one_line(text))


def latex(text: str) -> str:
    """A text that LaTeX shows as it is, on one line.

    >>> latex('50 % of "all"')
    "50 \\\\% of ``all''"
    """
    quoted = re.split(r'"([^"]*)"', one_line(text))
    shown = ["".join(LATEX_SPECIAL.get(char, char) for char in part) for part in quoted]
    return "".join(f"``{part}''" if number % 2 else part for number, part in enumerate(shown))


def latex_prose(text: str) -> str:
    """A sentence of this program's in LaTeX, in which markdown's backticks set commands and names apart.

    >>> latex_prose("as `max_margin` says")
    'as \\\\texttt{max\\\\_margin} says'
    """
    parts = [latex(part) for part in re.split(r"`([^`]*)`", text)]
    return "".join(rf"\texttt{{{part}}}" if number % 2 else part for number, part in enumerate(parts))


def spreadsheet(text: str) -> str:
    """A text that spreadsheets show: one that begins like a formula would be computed, whatever it does.

    >>> spreadsheet("=1+1"), spreadsheet("-1.5")
    ("'=1+1", '-1.5')
    """
    valid = text.encode("utf-8", errors="backslashreplace").decode("utf-8")
    return f"'{valid}" if valid.startswith(FORMULA_BEGINS) and not _is_number(valid) else valid


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
