"""Which images an epoch shows, with small classes drawn more often.

The functions, (labels, count, stream) -> indices, are what a training stage takes as its sampler. `EpochSampler` makes
the same draws for any torch DataLoader:

    sampler = EpochSampler(labels, by_power, seed=0)
    loader = DataLoader(images, batch_size=128, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in loader: ...

A longer draw begins with the shorter one, so all world sizes share one sequence.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import DistributedSampler

from procrustean.balance import weights
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.random_numbers import Stream

Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]


def in_turn(labels: Labels, count: int, stream: Stream) -> Indices:
    """All images in random order, then all again in another order, and so on."""
    rounds = -(-count // len(labels))
    return stream.permutations(rounds, len(labels)).reshape(-1)[:count]


def class_balanced(labels: Labels, count: int, stream: Stream) -> Indices:
    """A uniform class, then a uniform image of it: every image has the weight 1 / n_y."""
    return by_power(labels, count, stream, exponent=0.0)


def reversed_frequency(labels: Labels, count: int, stream: Stream) -> Indices:
    """A class with probability ~ 1 / n_c, then a uniform image of it, as BBN draws (Zhou et al. 2020)."""
    return by_power(labels, count, stream, exponent=-1.0)


def by_power(labels: Labels, count: int, stream: Stream, *, exponent: float = 0.5) -> Indices:
    """A class with probability ~ n_c^exponent, then a uniform image of it, with replacement.

    Args:
        exponent: 1 draws all images alike, 0.5 is square-root sampling (Kang et al. 2020), 0 `class_balanced`,
            -1 `reversed_frequency`.
    """
    return _by_class(labels, count, stream, lambda counts: weights.power_law(counts, exponent))


def by_effective_number(labels: Labels, count: int, stream: Stream, *, beta: float = 0.9999) -> Indices:
    """Images weighted by `weights.effective_number` of their class, drawn with replacement.

    Args:
        beta: 0 draws all images alike, towards 1 it becomes `class_balanced`.
    """
    return _by_class(labels, count, stream, lambda n: torch.tensor(n) * weights.effective_number(n, beta))


def class_aware(labels: Labels, count: int, stream: Stream, *, per_class: int = 4) -> Indices:
    """Runs of `per_class` images of one class; classes and the images of each in shuffled cycles (Kang et al. 2020).

    Every class is visited once before any is visited again, and of each class every image is shown once before any is
    shown again. A class with fewer than `per_class` images repeats some inside a run. The cycles begin anew with every
    epoch, where the original lets them go on: the draw stays a function of the stream.
    """
    if index(per_class) < 1:
        raise ConfigError(f"per_class = {per_class!r} received; a run has at least one image")
    order, starts, counts = _grouped(labels)
    # Streams of their own for the classes and for the images of each: a longer draw takes more of all of them.
    key = int(stream.raw(1)[0])
    runs = -(-count // per_class)
    rounds = -(-runs // len(counts))
    visited = Stream(key, "classes").permutations(rounds, len(counts)).reshape(-1)[:runs]
    chosen = np.empty((runs, per_class), dtype=np.int64)
    visits = np.split(np.argsort(visited, kind="stable"), np.cumsum(np.bincount(visited, minlength=len(counts)))[:-1])
    for group, (start, size) in enumerate(zip(starts, counts, strict=True)):
        needed = len(visits[group]) * per_class
        cycles = Stream(key, "images", group).permutations(-(-needed // size), size).reshape(-1)[:needed]
        chosen[visits[group]] = order[start + cycles].reshape(-1, per_class)
    return chosen.reshape(-1)[:count]


def _grouped(labels: Labels) -> tuple[Indices, Indices, Indices]:
    """Positions of all images sorted by class, where each class begins among them, and its number of images."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    return order, starts, counts


def _by_class(labels: Labels, count: int, stream: Stream, weight: Callable[[Sequence[int]], Tensor]) -> Indices:
    order, starts, counts = _grouped(labels)
    # Two numbers per image, side by side: a longer draw begins with the same images. 53 bits, so that no class is too
    # large for every image to be reached.
    uniforms = (stream.raw(2 * count).reshape(count, 2) >> np.uint64(11)) * 2.0**-53
    cumulative = np.cumsum(weight([int(n) for n in counts]).double().numpy())
    group = np.searchsorted(cumulative, uniforms[:, 0] * cumulative[-1], side="right").clip(max=len(counts) - 1)
    within = (uniforms[:, 1] * counts[group]).astype(np.int64)
    chosen: Indices = order[starts[group] + within]
    return chosen


#: (labels, count, stream) -> the first `count` images of the sequence of a stream.
Draw = Callable[[Labels, int, Stream], Indices]


class EpochSampler(DistributedSampler[int]):
    """A draw of images for torch's DataLoader, a pure function of (seed, epoch).

    A DistributedSampler is what frameworks that shard samplers, such as Lightning, know as sharded already, and leave
    alone. Nothing else of that class is used.

    All ranks share one global sequence, whatever their number: rank r of W shows its elements r, r + W, ... If W does
    not divide the length of the epoch, the draw goes on until it does, so that no image is repeated as a filling and
    all ranks have equal lengths.

    Args:
        labels: class of every image of the data set, in its order.
        draw: one of the functions of this module, with options partial(by_power, exponent=0.5), or your own.
        count: images of an epoch, all ranks together; as many as there are labels by default.
        seed: of the draw.
        rank, world_size: which process of how many. By default those of torch.distributed when the sampler is iterated;
            0 of 1 if it is not initialised, or if accelerate iterates, which shards every sampler by itself.
    """

    def __init__(
        self,
        labels: npt.ArrayLike | Tensor,
        draw: Draw = class_balanced,
        *,
        count: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.labels, self.draw = _checked_labels(labels), draw
        self.count = len(self.labels) if count is None else index(count)
        if self.count < 1:
            raise ConfigError(f"count = {count!r} received; an epoch has at least one image")
        self.seed = index(seed)
        self._given_place = _checked_place(rank, world_size)
        self.epoch = 0
        self.start = 0  # of the epoch under way: images of the global sequence that were shown before
        self.position = 0  # images of the global sequence that have been handed out
        self.draw(self.labels, 1, self._stream())  # wrong options are refused here, not in the first epoch

    @property
    def rank(self) -> int:  # type: ignore[override]  # an attribute there, set once and for all
        """Which process this is, now."""
        return (self._given_place or _place())[0]

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """How many processes share the sequence, now."""
        return (self._given_place or _place())[1]

    def set_epoch(self, epoch: int, start: int | None = None) -> None:
        """Draw this epoch from now on.

        Args:
            epoch: counted from 0.
            start: images of it, all ranks together, that have been shown already; by default none, unless a state
                of this epoch was loaded.
        """
        if start is None:
            start = self.start if epoch == self.epoch else 0
        # Plain integers: the stream is keyed by how they are written, and those of numpy are written otherwise.
        epoch, start = index(epoch), index(start)
        self.epoch, self.start, self.position = epoch, start, start

    def __len__(self) -> int:
        """Images this rank has still to show in the epoch."""
        return max(0, -(-(self.count - self.start) // self.num_replicas))

    def __iter__(self) -> Iterator[int]:
        rank, world_size = self.rank, self.num_replicas
        total = self.start + len(self) * world_size
        mine = self.draw(self.labels, total, self._stream())[self.start + rank :: world_size]
        self.position = self.start
        for image in mine.tolist():
            self.position += world_size
            yield image

    def state_dict(self) -> dict[str, int]:
        """Where the draw stands. A DataLoader with workers fetches ahead of what was trained on: then give the number
        of images trained on to `set_epoch` instead."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position, "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another sampler stood, which may have had another world size."""
        for name in ("seed", "count"):
            if state[name] != getattr(self, name):
                raise ConfigError(
                    f"a state with {name} {state[name]} received by a sampler with {name} {getattr(self, name)}; "
                    "it would go on with other images"
                )
        self.set_epoch(state["epoch"], state["position"])

    def _stream(self) -> Stream:
        return Stream(self.seed, "sampler", self.epoch)


class ClassBalancedSampler(EpochSampler):
    """An `EpochSampler` by its usual draw, `class_balanced`.

    >>> sampler = ClassBalancedSampler([0] * 98 + [1, 1], seed=0)
    >>> len(sampler), sum(index >= 98 for index in sampler)
    (100, 50)
    """


def _checked_labels(labels: npt.ArrayLike | Tensor) -> Labels:
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.ndim != 1 or not len(values) or not np.issubdtype(values.dtype, np.integer) or values.min() < 0:
        raise DataError(
            f"labels of shape {values.shape} and type {values.dtype} received; "
            "give the class of every image, integers from 0"
        )
    return values.astype(np.int64)


def _checked_place(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    if (rank is None) != (world_size is None):
        raise ConfigError(f"rank = {rank!r}, world_size = {world_size!r} received; give both or neither")
    if rank is None or world_size is None:
        return None
    if not 0 <= rank < world_size:
        raise ConfigError(f"rank = {rank}, world_size = {world_size} received; ranks count from 0 to world_size - 1")
    return rank, world_size


def _place() -> tuple[int, int]:
    """Rank and world size of whoever asks for images now."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()) or _accelerate_asks():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _accelerate_asks() -> bool:
    """Whether images are asked for by a loader of accelerate, as that of the Hugging Face Trainer is.

    It shards any sampler, a DistributedSampler too, and tells it nothing. That its loader was prepared shows in no
    state: a loop may have loaders that accelerate knows nothing of. So whoever calls is looked at.
    """
    callers = traceback.walk_stack(sys._getframe())
    return any(frame.f_globals.get("__name__") == "accelerate.data_loader" for frame, _ in callers)
