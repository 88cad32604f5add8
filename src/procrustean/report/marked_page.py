"""Pages that are written by hand but for a part between two marks."""

from __future__ import annotations

from procrustean.errors import RunError


def placed(page: str, begin: str, end: str, content: str) -> str:
    """The page with other content between its marks; without both, nothing of it would be safe.

    >>> placed("Text.<!-- a -->old<!-- b -->More.", "<!-- a -->", "<!-- b -->", "new")
    'Text.<!-- a -->new<!-- b -->More.'
    """
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise RunError(f"the page has no place for the table: write {begin} and {end} into it, each on a line, once")
    return page[: page.index(begin)] + begin + content + page[page.index(end) :]
