"""Pages that are written by hand but for parts that are made, and so are read and replaced with care."""

from __future__ import annotations

from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.base.whole_files import write_atomically


def read_page(path: Path, advice: str) -> str:
    """The text of a page.

    Args:
        path: of the page.
        advice: what to do where it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot read {path} ({error.strerror or error}); {advice}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"cannot read {path}, which is no text in UTF-8 ({error}); {advice}") from error


def replace_page(path: Path, text: str, advice: str) -> None:
    """Write a page, as a whole or not at all: what was written by hand outlives a full disk.

    Args:
        path: of the page; where it is a link, what it leads to is replaced.
        text: all of it.
        advice: what to do where it cannot be written.
    """
    write_atomically(path.resolve() if path.is_symlink() else path, text.encode(), advice)


def placed(page: str, begin: str, end: str, content: str) -> str:
    """The page with other content between its marks; without both, nothing of it would be safe.

    >>> placed("Text.<!-- a -->old<!-- b -->More.", "<!-- a -->", "<!-- b -->", "new")
    'Text.<!-- a -->new<!-- b -->More.'
    """
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise RunError(f"the page has no place for the table: write {begin} and {end} into it, each on a line, once")
    return page[: page.index(begin)] + begin + content + page[page.index(end) :]
