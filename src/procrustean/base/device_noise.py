"""Random numbers that a device makes of others: a hash, the same on CPU and GPU, which can be captured."""

from __future__ import annotations

from torch import Tensor

_32_BITS = 0xFFFFFFFF


def scrambled(bits: Tensor) -> Tensor:
    """32 bits as evenly spread as a counter's are not; int64 holds every product."""
    bits = bits & _32_BITS
    for factor in (0x2C1B3C6D, 0x297A2D39):
        bits = (bits ^ bits >> 15) * factor & _32_BITS
    return bits ^ bits >> 16
