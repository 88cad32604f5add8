"""What a sampler draws, checked where it is drawn: too many indices would be cut, others fail far from the sampler."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError
from procrustean.base.random_numbers import Stream
from procrustean.base.user_code import code_name


class Sampler(Protocol):
    """Which training images an epoch shows; the draw uses nothing but the stream."""

    def __call__(self, labels: npt.NDArray[np.int64], count: int, stream: Stream) -> npt.NDArray[np.int64]:
        """Exactly `count` indices of images, in the order in which they are shown; one may be there several times.

        Args:
            labels: of the images that are drawn from.
            count: images of an epoch, or of another draw that is measured.
            stream: the random numbers of this draw.
        """
        ...


def sampled(sampler: Sampler, labels: npt.NDArray[np.int64], count: int, stream: Stream) -> npt.NDArray[np.int64]:
    """`count` indices of images with these labels, in the sampler's order; ConfigError if it returns anything else."""
    returned: object = sampler(labels, count, stream)
    found = f"the sampler {code_name(sampler)} returned"
    try:
        indices: npt.NDArray[Any] = np.asarray(returned)
    except (TypeError, ValueError):  # a tensor of a GPU; lists of different lengths
        indices = np.empty(())
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        kind = type(returned).__name__
        if isinstance(returned, np.ndarray):
            kind = f"an array of type {returned.dtype} and shape {returned.shape}"
        raise ConfigError(f"{found} {kind}; {count} indices are needed, whole numbers in an array of one dimension")
    if len(indices) != count:
        raise ConfigError(
            f"{found} {len(indices)} indices, {count} are needed; return exactly `count` of them, in the order in "
            "which the images are to be shown"
        )
    low, high = int(indices.min(initial=0)), int(indices.max(initial=0))
    if low < 0 or high >= len(labels):
        raise ConfigError(
            f"{found} the index {low if low < 0 else high}, but there are {len(labels)} images; indices are from 0 to "
            f"{len(labels) - 1}"
        )
    return indices.astype(np.int64, copy=False)
