"""The random numbers of one epoch, drawn ahead on the host: which images, how augmented, mixed with whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import ConfigError
from procrustean.base.own_code import code_name
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.settings import Arrays as Arrays


class Draws(Protocol):
    """What draws random numbers for every image of an epoch, as an augmentation does."""

    def draw(self, count: int, stream: Callable[[str], Stream]) -> Arrays:
        """The numbers for `count` images; `stream` gives the stream of a purpose."""
        ...


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
    indices = np.asarray(sampler(labels, count, stream))
    whole = indices.ndim == 1 and np.issubdtype(indices.dtype, np.integer)
    low, high = (int(indices.min(initial=0)), int(indices.max(initial=0))) if whole else (0, 0)
    if not whole or len(indices) != count or low < 0 or high >= len(labels):
        kind = f"{len(indices)} indices from {low} to {high}" if whole else f"{indices.dtype} {indices.shape}"
        raise ConfigError(
            f"the sampler {code_name(sampler)} returned {kind}; {count} indices are needed, whole numbers from 0 to "
            f"{len(labels) - 1}"
        )
    return indices.astype(np.int64, copy=False)


@dataclass(frozen=True)
class EpochPlanner:
    """Draws the plan of any epoch; the same (seed, stage, epoch) always gives the same plan."""

    labels: npt.NDArray[np.int64]  # of the training set
    batch_size: int
    augmentation: Draws
    draws: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sampler: Sampler | None = None
    extra: Sampler | None = None  # draws a second stream of images
    extra_labels: npt.NDArray[np.int64] | None = None  # of the set it draws from; None: the training set

    @property
    def images(self) -> int:
        """Images shown in an epoch."""
        return len(self.labels)

    @property
    def steps(self) -> int:
        """Steps of an epoch; the incomplete last batch is kept."""
        return -(-self.images // self.batch_size)

    @property
    def full_steps(self) -> int:
        """Steps with a whole batch."""
        return self.images // self.batch_size

    def draw(self, seed: int, stage: int, epoch: int) -> Arrays:
        """Arrays of length `images`, in the order of training; the rows of a batch stand together."""

        def stream(purpose: str) -> Stream:
            return Stream(seed, purpose, stage, epoch)

        n = self.images
        order = stream("order")
        plan: Arrays = {
            "index": order.permutation(n) if self.sampler is None else sampled(self.sampler, self.labels, n, order),
            "partner": self._partners(stream("partner")),
        }
        plan["inverse"] = self._by_batch(plan["partner"])
        plan |= self._augmented("", stream)
        if self.extra is not None:
            among = self.labels if self.extra_labels is None else self.extra_labels
            plan["extra.index"] = sampled(self.extra, among, n, stream("extra.order"))
            plan |= self._augmented("extra.", stream)
        for name, shape in self.draws.items():
            plan[f"u.{name}"] = stream(f"u.{name}").uniforms(n, *shape)
        return plan

    def _augmented(self, prefix: str, stream: Callable[[str], Stream]) -> Arrays:
        numbers = self.augmentation.draw(self.images, lambda purpose: stream(prefix + purpose))
        return {prefix + name: values for name, values in numbers.items()}

    def _partners(self, stream: Stream) -> npt.NDArray[np.int64]:
        full, size = self.full_steps, self.batch_size
        return np.concatenate(
            [
                stream.permutations(full, size).reshape(-1),
                stream.permutation(self.images - full * size),
            ]
        )

    def _by_batch(self, partner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        cut = self.full_steps * self.batch_size
        whole = np.argsort(partner[:cut].reshape(-1, self.batch_size), axis=1).reshape(-1)
        return np.concatenate([whole, np.argsort(partner[cut:])])
