"""Images that are read while training goes on: threads fetch the batches that the plan names ahead of their steps.

Nothing random is decided here, so the number of threads and processes never shows in the numbers. The device reads a
batch from tensors that stay where they are: the step is the same function as with all images on the device, captured
or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from procrustean.data.augment.in_workers import NUMBERS, augment_batch
from procrustean.data.augment.on_device import with_border
from procrustean.data.augment.settings import Arrays, Augmentation
from procrustean.data.imageset import ImageSet, read_images
from procrustean.data.workers import Job, Prefetcher, WorkerPool
from procrustean.engine.device import give_back, take_stream
from procrustean.engine.images import LabelledImages

Indices = npt.NDArray[np.int64]


class StreamedImages(LabelledImages):
    """A set of images that stays in host memory or in its file; labels are on the device.

    Args:
        images, device, mean, std, augmentation: as for `ImageStore`.
        threads: batches that are read, or augmented image by image, at a time.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        device: torch.device,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augmentation: Augmentation | None = None,
        threads: int,
    ) -> None:
        super().__init__(images, device=device, mean=mean, std=std, augmentation=augmentation)
        self.images, self.threads = images, threads

    def feed(self, batch_size: int) -> BatchFeed:
        """Batches of up to `batch_size` augmented images for training."""
        return BatchFeed(self, batch_size)

    def clean_at(self, rows: Tensor | slice) -> Tensor:
        """The middle of images as it is, [n, channels, h, w]; waits for the device."""
        chosen = np.arange(len(self))[rows if isinstance(rows, slice) else rows.cpu().numpy()]
        block = np.empty((len(chosen), *self.images.images.shape[1:]), np.uint8)
        read_images(self.images.images, chosen, block)
        return self._middle(torch.from_numpy(block).to(self.device))

    def clean_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All images as they are, in order, with their labels, `size` at a time."""
        size = min(size, len(self))
        ahead: Prefetcher[Tensor] = Prefetcher(min(self.threads, 4), slots=3)
        hand_over = HandOver(self.device, (size, *self.images.images.shape[1:]), slots=3)
        starts = range(0, len(self), size)

        def read(start: int, slot: int) -> Tensor:
            rows = np.arange(start, min(start + size, len(self)))
            return hand_over.filled(slot, len(rows), partial(read_images, self.images.images, rows))

        try:
            ahead.start(partial(read, start) for start in starts)
            for number, start in enumerate(starts):
                pixels = hand_over.to_device(number % 3, ahead.take())
                x = self._middle(pixels)
                hand_over.used(number % 3)
                yield x, self.labels[start : start + size]
        finally:
            ahead.close()
            hand_over.close()

    def _middle(self, pixels: Tensor) -> Tensor:
        return self.normalised(self.augment.middle(pixels, padding=0))


class BatchFeed:
    """The batches of one stream of a plan, each brought to the device before its step needs it."""

    def __init__(self, source: StreamedImages, batch_size: int) -> None:
        self.source, self.batch_size = source, batch_size
        self.labels, self.pixel_range = source.labels, source.pixel_range
        self.slots = source.threads + 2
        shape = (batch_size, *source.augmentation.handed, source.images.images.shape[3])
        self.current = torch.zeros(shape, dtype=torch.uint8, device=source.device)  # what the step reads
        self._places = torch.arange(batch_size, device=source.device)
        self._hand_over = HandOver(source.device, shape, self.slots)
        self._ahead: Prefetcher[Tensor] = Prefetcher(source.threads, self.slots)
        self._taken = 0
        self._pool = WorkerPool(augment_batch, source.threads) if source.augmentation.on_host else None

    def begin(self, plan: Arrays, prefix: str, step: int) -> None:
        """Read ahead from a step of an epoch on.

        Args:
            plan: the random numbers of the epoch.
            prefix: which stream of images, "" or "extra.".
            step: the first step that will be asked for.
        """
        index = plan[prefix + "index"]
        numbers = {name: plan[prefix + name] for name in NUMBERS if prefix + name in plan} if self._pool else {}
        starts = range(step * self.batch_size, len(index), self.batch_size)
        self._taken = 0
        self._ahead.start(self._jobs(index, numbers, starts))

    def advance(self) -> None:
        """Bring the batch of the next step to where the step reads it."""
        slot = self._taken % self.slots
        pixels = self._hand_over.to_device(slot, self._ahead.take())
        self.current[: len(pixels)].copy_(pixels)
        self._hand_over.used(slot)
        self._taken += 1

    def augmented(self, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        """The augmented and normalised images of the current batch; `index` only says how many they are."""
        source, count = self.source, len(index)
        pixels = with_border(self.current[:count], source.augmentation.needs_padding)
        return source.normalised(source.augment(pixels, self._places[:count], numbers))

    def close(self) -> None:
        """End the threads and worker processes."""
        self._ahead.close()
        self._hand_over.close()
        if self._pool is not None:
            self._pool.close()

    def _jobs(self, index: Indices, numbers: Arrays, starts: range) -> Iterator[Job[Tensor]]:
        for start in starts:
            rows = index[start : start + self.batch_size]
            own = {name: values[start : start + self.batch_size] for name, values in numbers.items()}
            yield partial(self._read, rows, own)

    def _read(self, rows: Indices, numbers: Arrays, slot: int) -> Tensor:
        images = self.source.images.images
        if self._pool is None:
            return self._hand_over.filled(slot, len(rows), partial(read_images, images, rows))
        pixels = np.empty((len(rows), *images.shape[1:]), np.uint8)
        read_images(images, rows, pixels)
        done = self._pool.run((self.source.augmentation, pixels, numbers))
        return self._hand_over.filled(slot, len(rows), lambda out: np.copyto(out, done))


class HandOver:
    """Buffers through which batches go to the device: on a GPU pinned ones, copied on a stream of their own.

    Args:
        device: where the batches go.
        shape: of a batch of bytes.
        slots: how many batches may be on their way.
    """

    def __init__(self, device: torch.device, shape: tuple[int, ...], slots: int) -> None:
        self._on_gpu = device.type == "cuda"
        self._host = [torch.empty(shape, dtype=torch.uint8, pin_memory=self._on_gpu) for _ in range(slots)]
        if self._on_gpu:
            self._device = [torch.empty(shape, dtype=torch.uint8, device=device) for _ in range(slots)]
            self._stream = take_stream(device, "copies")
            # The memory of these buffers may be read yet by what is queued for whoever had it before.
            self._stream.wait_stream(torch.cuda.current_stream(device))
            self._arrived = [torch.cuda.Event() for _ in range(slots)]
            self._used = [torch.cuda.Event() for _ in range(slots)]

    def filled(self, slot: int, count: int, fill: Callable[[npt.NDArray[np.uint8]], None]) -> Tensor:
        """The first `count` images of a slot after `fill` wrote them, on their way already; for the reading threads."""
        host = self._host[slot][:count]
        if not self._on_gpu:
            fill(host.numpy())
            return host
        self._arrived[slot].synchronize()  # the batch that was in the host's buffer has left it
        fill(host.numpy())
        with torch.cuda.stream(self._stream):
            # The host queues steps ahead of the device, which may not have read the batch before this one yet.
            self._stream.wait_event(self._used[slot])
            self._device[slot][:count].copy_(host, non_blocking=True)
            self._arrived[slot].record()
        return host

    def to_device(self, slot: int, host: Tensor) -> Tensor:
        """The batch on the device, for what the current stream does next; say `used` when that is queued."""
        if not self._on_gpu:
            return host
        torch.cuda.current_stream().wait_event(self._arrived[slot])
        return self._device[slot][: len(host)]

    def used(self, slot: int) -> None:
        """What reads the batch is queued on the current stream."""
        if self._on_gpu:
            self._used[slot].record()

    def close(self) -> None:
        """Wait for what is on its way: the memory it goes to is about to be given back."""
        if self._on_gpu:
            self._stream.synchronize()
            give_back(self._stream, "copies")
