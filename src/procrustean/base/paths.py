"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path


def expanded(path: str | Path) -> Path:
    """The path with ~ written out; as it is where no user is called so, which is how shells leave it.

    >>> expanded("~nobody_is_called_so/x.png").as_posix()
    '~nobody_is_called_so/x.png'
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
