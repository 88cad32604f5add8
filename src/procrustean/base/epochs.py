"""Epochs as shares of a training."""

from __future__ import annotations


def whole_epochs(share: float, epochs: float) -> int:
    """The epochs that a share of them has, rounded down.

    >>> whole_epochs(0.8, 200), whole_epochs(0.7, 90)
    (160, 63)
    """
    # The hair's breadth: 0.7 * 90 is 63 epochs, not the 62 that rounding makes of it.
    return int(share * epochs + 1e-9)
