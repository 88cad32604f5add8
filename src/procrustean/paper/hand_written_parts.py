"""Pages that are made from numbers and keep the parts that people wrote."""

from __future__ import annotations

import re

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
