"""Random numbers as a function of (seed, purpose, stage, epoch), the same on every device and version.

Each stream is a counter-based Philox generator keyed by a hash of what the numbers are for. Only its raw
64-bit output is used, which NumPy guarantees never to change, so a run can be repeated and resumed exactly.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor


class Stream:
    """The random numbers of one purpose.

    >>> a, b = Stream(0, "order", 3), Stream(0, "order", 3)
    >>> bool((a.permutation(9) == b.permutation(9)).all())
    True
    """

    def __init__(self, seed: int, *purpose: str | int) -> None:
        digest = hashlib.blake2b(repr((int(seed), *purpose)).encode(), digest_size=16).digest()
        self._bits = np.random.Philox(key=np.frombuffer(digest, dtype=np.uint64))

    def raw(self, count: int) -> npt.NDArray[np.uint64]:
        """`count` independent 64-bit integers."""
        return self._bits.random_raw(count)

    def uniforms(self, *shape: int) -> npt.NDArray[np.float32]:
        """Uniform float32 numbers in [0, 1), multiples of 2^-24."""
        raw = self.raw(int(np.prod(shape, dtype=np.int64)))
        return ((raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)).reshape(shape)

    def integers(self, high: int, *shape: int) -> npt.NDArray[np.int64]:
        """Integers from 0 to high - 1."""
        raw = self.raw(int(np.prod(shape, dtype=np.int64)))
        # 53 bits scaled: the bias is below high / 2^53.
        scaled = (raw >> np.uint64(11)).astype(np.float64) * (2.0**-53 * high)
        return scaled.astype(np.int64).reshape(shape)

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """The numbers 0 to count - 1 in random order."""
        return np.argsort(self.raw(count), kind="stable")

    def permutations(self, rows: int, count: int) -> npt.NDArray[np.int64]:
        """`rows` independent permutations of 0 to count - 1, [rows, count]."""
        return np.argsort(self.raw(rows * count).reshape(rows, count), axis=1, kind="stable")


def torch_seed(seed: int, *purpose: str | int) -> int:
    """A seed for a torch generator, for what has to be drawn by torch itself: the initial weights."""
    return int(Stream(seed, *purpose).raw(1)[0] >> np.uint64(1))


_32_BITS = 0xFFFFFFFF


def scrambled(bits: Tensor) -> Tensor:
    """32 bits as evenly spread as a counter's are not; the same on CPU and GPU, and can be captured in a graph."""
    bits = bits & _32_BITS
    for factor in (0x2C1B3C6D, 0x297A2D39):
        # int64 holds every product.
        bits = (bits ^ bits >> 15) * factor & _32_BITS
    return bits ^ bits >> 16
