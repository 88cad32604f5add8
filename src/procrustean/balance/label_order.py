"""Counts given in another order than that of the labels, told by the labels that come by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FIRST_LOOK = 64  # labels; each later look is at twice as many
FEWEST_BATCHES = 16  # to tell by them how much batches differ by chance
STANDARD_ERRORS = 6.0  # so many below a balanced sampler are no chance, even where every label is seen twice
EXCESS = 0.1  # share of the labels that classes have beyond their counts; a sorted data set has none in its first epoch
MATCHES = 0.05  # share of an epoch's labels that may be of other classes than counted, incomplete batches for example


class LabelOrder:
    """Tallies labels for about an epoch, and tells if they are not those of the counts.

    Early, if classes with small counts come more often than those with large. Three things look alike at first and are
    no mistake: batches by chance, a sampler that shows all classes equally often, and a data set that is sorted by
    class and begins with the small ones. The first two are told by the mean log count of the labels, which is lower
    than that of the classes only where the labels run against the counts; its error is taken from the batches, since a
    sampler may fill each of them with a few classes. The last is told by its classes, none of which has more labels
    than its count.

    After an epoch, if the classes have come as often as the counts say, but in another order.

    >>> balanced = torch.arange(4).repeat(200)
    >>> reverse = torch.arange(4).repeat_interleave(torch.tensor([400, 300, 20, 10]))
    >>> LabelOrder([10, 20, 300, 400]).against(balanced) is None
    True
    >>> LabelOrder([10, 20, 300, 400]).against(reverse)
    'of 730 labels 400 were of class 0, which has 10 images by its count, and 10 of class 3, which has 400'
    >>> LabelOrder([300, 20, 10, 400]).against(reverse)
    'of 730 labels 300 were of class 1, which has 20 images by its count, and 10 of class 3, which has 400'
    """

    def __init__(self, counts: Sequence[int]) -> None:
        # On the CPU whatever the default device is: the labels that are looked at lie there.
        self.counts = torch.tensor(counts, dtype=torch.float64, device="cpu")
        self.tally = torch.zeros(len(counts), dtype=torch.int64, device="cpu")
        self.seen, self.next_look = 0, FIRST_LOOK
        self.total = sum(counts)
        sizes = self.counts.log()
        self._smallness = sizes.mean() - sizes  # how far each class is below the mean of the classes
        # By how much the log counts of each batch are below those of balanced labels: sum, and sum of the squares.
        self.batches, self._below, self._below_squared = 0, 0.0, 0.0

    @property
    def settled(self) -> bool:
        """Whether an epoch of labels has come by, after which there is nothing more to learn."""
        return self.seen >= self.total

    def against(self, labels: Tensor) -> str | None:
        """Count the labels of a batch, class indices on the CPU; the evidence if they are not those of the counts."""
        came = torch.bincount(labels.long(), minlength=len(self.tally))
        self.tally = self.tally + came
        self.seen += len(labels)
        below = float(came.double() @ self._smallness)
        self.batches += 1
        self._below += below
        self._below_squared += below**2
        if self.seen < self.next_look and not self.settled:
            return None
        self.next_look = 2 * self.seen
        return self._evidence() if self._reversed() or self._permuted() else None

    def _reversed(self) -> bool:
        if self.batches < FEWEST_BATCHES:
            return False
        by_labels = self.seen * float(self._smallness.square().mean())  # variance if each were drawn by itself
        by_batches = (self._below_squared - self._below**2 / self.batches) * self.batches / (self.batches - 1)
        excess = float((self.tally - self.counts).clamp(min=0).sum()) / self.seen
        return excess > EXCESS and self._below > STANDARD_ERRORS * math.sqrt(max(by_labels, by_batches))

    def _permuted(self) -> bool:
        came = self._in_an_epoch()
        alike = _elsewhere(came.sort().values, self.counts.sort().values) < MATCHES
        by_chance = math.sqrt(len(self.counts) / self.total)  # twice what draws with replacement give in the mean
        return self.settled and alike and _elsewhere(came, self.counts) > 2 * MATCHES + by_chance

    def _in_an_epoch(self) -> Tensor:
        """Labels of each class, as if an epoch had come by."""
        return self.tally.double() * (self.total / self.seen)

    def _evidence(self) -> str:
        surplus = self._in_an_epoch() - self.counts
        often, large = int(surplus.argmax()), int(surplus.argmin())
        came, images = self.tally.tolist(), self.counts.long().tolist()
        return (
            f"of {self.seen} labels {came[often]} were of class {often}, which has {images[often]} images by its "
            f"count, and {came[large]} of class {large}, which has {images[large]}"
        )


def _elsewhere(came: Tensor, counts: Tensor) -> float:
    """Share of the labels that are of other classes than the counts say."""
    return float((came - counts).abs().sum() / (2 * counts.sum()))
