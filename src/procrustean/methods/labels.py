"""What methods are called where they are shown."""

from __future__ import annotations

#: Records and the identity of a run keep the label that a method has had from the beginning, or runs that were begun
#: could not go on. The paper writes "MFW w/ DRW" beside "LDAM-DRW"; tables here write both alike.
SHOWN = {"MFW w/ DRW": "MFW-DRW"}


def shown_label(label: str) -> str:
    """The name of a method in tables, figures and messages, from the label in its record.

    >>> shown_label("MFW w/ DRW"), shown_label("LDAM-DRW")
    ('MFW-DRW', 'LDAM-DRW')
    """
    return SHOWN.get(label, label)
