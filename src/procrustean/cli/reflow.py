"""Docstrings for a terminal: their lines are as long as those of the source, which few terminals are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from textwrap import wrap

INDENT = "    "  # of what continues a line


def reflow(docstring: str, width: int) -> str:
    """The docstring with its paragraphs wrapped anew, each argument with a hanging indent.

    Lines of a formula stay lines, and are continued with an indent where they are too long.

    Args:
        docstring: as `inspect.getdoc` gives it.
        width: characters per line.

    >>> print(reflow("Short\\nlines.\\n\\nArgs:\\n    tau: strength of the\\n        shift.", 24))
    Short lines.
    <BLANKLINE>
    Args:
        tau: strength of the
            shift.
    """
    paragraphs = filter(None, re.split(r"\n\s*\n", docstring.strip("\n")))
    return "\n\n".join("\n".join(_paragraph(paragraph.splitlines(), width)) for paragraph in paragraphs)


def hanging(text: str, width: int, *, indent: str = INDENT) -> str:
    """A paragraph wrapped to the width between words; what continues its first line is indented.

    >>> print(hanging("Source: Ye, Zhan, Chao, ICCV 2021", 24))
    Source: Ye, Zhan, Chao,
        ICCV 2021
    """
    return "\n".join(_wrapped(text, width, "", indent))


def _paragraph(lines: list[str], width: int) -> Iterator[str]:
    if lines[0].startswith("Formula:"):
        for line in _merged(lines, _goes_on_in_formula):
            yield from _wrapped(line, width, "", INDENT)
    elif lines[0] == "Args:":
        yield lines[0]
        for line in _merged(lines[1:], _goes_on_in_argument):
            yield from _wrapped(line, width, INDENT, 2 * INDENT)
    else:
        yield from _wrapped(" ".join(lines), width, "", "")


def _goes_on_in_formula(before: str, line: str) -> bool:
    return not before.endswith((",", ";", ".", ":"))


def _goes_on_in_argument(before: str, line: str) -> bool:
    return line.startswith(2 * INDENT)


def _merged(lines: list[str], goes_on: Callable[[str, str], bool]) -> list[str]:
    """The lines, each with those that only continue it."""
    merged = lines[:1]
    for line in lines[1:]:
        if goes_on(merged[-1], line):
            merged[-1] += " " + line.strip()
        else:
            merged.append(line)
    return merged


def _wrapped(text: str, width: int, first: str, other: str) -> list[str]:
    # A hyphen may be a minus, and half a word is harder to read than a line that is too long.
    return wrap(
        text.strip(),
        width,
        initial_indent=first,
        subsequent_indent=other,
        break_on_hyphens=False,
        break_long_words=False,
    )
