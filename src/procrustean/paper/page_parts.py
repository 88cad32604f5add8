"""Generated pages: lines of prose, the parts that people wrote, and files that are replaced with care."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.base.files import write_atomically


def read_page(path: Path, advice: str) -> str:
    """The text of a page."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot read {path} ({error.strerror or error}); {advice}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"cannot read {path}, which is no text in UTF-8 ({error}); {advice}") from error


def replace_page(path: Path, text: str, advice: str) -> None:
    """Write a page, as a whole or not at all: what was written by hand outlives a full disk."""
    write_atomically(path.resolve() if path.is_symlink() else path, text.encode(), advice)


def placed(page: str, begin: str, end: str, content: str) -> str:
    """The page with other content between its marks; without both, nothing of it would be safe.

    >>> placed("Text.<!-- a -->old<!-- b -->More.", "<!-- a -->", "<!-- b -->", "new")
    'Text.<!-- a -->new<!-- b -->More.'
    """
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise RunError(f"the page has no place for the table: write {begin} and {end} into it, each on a line, once")
    return page[: page.index(begin)] + begin + content + page[page.index(end) :]


NOTHING_YET = "Nothing has been written here yet."
_BEGIN, _END = "<!-- by hand: {name} -->", "<!-- end of {name} -->"


def by_hand(previous: str, name: str, otherwise: str = NOTHING_YET) -> str:
    """The part of this name of the page as it was, or a first text for it, between its marks.

    >>> page = by_hand("", "remarks", "None yet.")
    >>> by_hand(page.replace("None yet.", "Two."), "remarks", "None yet.").splitlines()[2]
    'Two.'
    """
    begin, end = _BEGIN.format(name=name), _END.format(name=name)
    found = re.search(re.escape(begin) + r"\n(.*?)" + re.escape(end), previous, flags=re.DOTALL)
    text = found[1].strip("\n") if found else otherwise
    return f"{begin}\n\n{text}\n\n{end}\n"


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines; all but the first begin with `indent`."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def paragraph(text: str) -> str:
    """The text in lines that end with a newline: pages put another between their parts."""
    return wrapped(text) + "\n"
