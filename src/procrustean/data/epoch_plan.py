"""The random numbers of one epoch, drawn ahead on the host: which images, how augmented, mixed with whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from procrustean.base.random_numbers import Stream
from procrustean.data.augment.settings import Arrays as Arrays
from procrustean.data.augment.settings import Augmentation
from procrustean.data.sampler_checks import Sampler, sampled


@dataclass(frozen=True)
class EpochPlanner:
    """Draws the plan of any epoch; the same (seed, stage, epoch) always gives the same plan."""

    labels: npt.NDArray[np.int64]  # of the training set
    batch_size: int
    augmentation: Augmentation
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
