"""Prose of generated pages in lines of 120 characters."""

from __future__ import annotations

import textwrap


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines; all but the first begin with `indent`."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def paragraph(text: str) -> str:
    """The text in lines that end with a newline: pages put another between their parts."""
    return wrapped(text) + "\n"
