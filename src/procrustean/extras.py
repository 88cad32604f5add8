"""How to get the libraries that only some parts need."""

from __future__ import annotations


def installing(extra: str) -> str:
    """The command that installs an extra, with the versions that are tested, and where to give it.

    In the clone the library is installed as it lies there (-e). Without that an extra would bring a copy of it, which
    later changes of the clone do not reach.

    >>> installing("nets")
    "in the clone of this project: pip install -c constraints.txt -e '.[nets]'"
    """
    return f"in the clone of this project: pip install -c constraints.txt -e '.[{extra}]'"
