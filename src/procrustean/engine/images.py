"""A set of images on the device, as bytes; cropped, flipped and normalised by the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from procrustean.balance.types import PixelRange
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.on_device import DeviceAugmentation
from procrustean.data.augment.settings import Arrays, Augmentation, make_augmentation
from procrustean.data.imageset import ImageSet, StoredImages, blocks


class LabelledSet:
    """Images, or what was computed from them, and their labels."""

    labels: Tensor  # [N]

    def __len__(self) -> int:
        return len(self.labels)

    def clean_at(self, rows: Tensor | slice) -> Tensor:
        """Some of them as they are, [n, ...]; of sets that are looked at."""
        raise NotImplementedError

    def clean_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All of them as they are, in order, with their labels, `size` at a time."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield self.clean_at(rows), self.labels[rows]


class LabelledImages(LabelledSet):
    """What a set of images on a device and one that streams to it have in common: labels and normalisation.

    Args:
        images: the set.
        device: where it is used.
        mean, std: per channel, of pixels scaled to 0..1.
        augmentation: what training does to the images and how much of them is seen; None for all of them, as they are.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        device: torch.device,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augmentation: Augmentation | None = None,
    ) -> None:
        height, width = images.images.shape[1:3]
        self.augmentation = augmentation or make_augmentation("none", stored=(height, width), channels=len(mean))
        self.device = device
        self.labels = _tensor(images.labels).to(device)  # [N]
        self.augment = DeviceAugmentation(self.augmentation, device)
        # (pixel / 255 - mean) / std as one multiply and add.
        scale = torch.tensor([1 / (255 * s) for s in std], dtype=torch.float32, device=device)
        shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], dtype=torch.float32, device=device)
        self.scale, self.shift = scale.view(-1, 1, 1), shift.view(-1, 1, 1)
        self.pixel_range = PixelRange(self.shift, self.shift + 255 * self.scale)  # what pixels of 0 and 255 become

    def normalised(self, x: Tensor) -> Tensor:
        """Pixels [B, channels, H, W], 0..255, as the network takes them: channels last in memory."""
        return (x * self.scale + self.shift).contiguous(memory_format=torch.channels_last)


class ImageStore(LabelledImages):
    """All images of a set on one device, padded once, read by gathers of fixed shape.

    Random crop pads with black pixels before normalisation, as torchvision's RandomCrop does on images.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        device: torch.device,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augmentation: Augmentation | None = None,
    ) -> None:
        super().__init__(images, device=device, mean=mean, std=std, augmentation=augmentation)
        self.padding = self.augmentation.needs_padding
        self.pixels = _on_device(images.images, self.padding, device)  # uint8 [N, H + 2p, W + 2p, channels]

    def augmented(self, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        """Augmented and normalised images [B, channels, h, w].

        Args:
            index: which images, [B].
            numbers: the random numbers of the augmentation for them, as `Augmentation.draw` names them.
        """
        return self.normalised(self.augment(self.pixels, index, numbers))

    def clean_at(self, rows: Tensor | slice) -> Tensor:
        """The middle of images as it is, [n, channels, h, w]."""
        return self.normalised(self.augment.middle(self.pixels[rows], self.padding))


@dataclass(frozen=True)
class Copies:
    """Which of the copies of an image an epoch shows: what is left to draw where features were computed beforehand."""

    count: int
    tested: tuple[int, int] = (1, 1)

    def draw(self, count: int, stream: Callable[[str], Stream]) -> Arrays:
        """The random numbers for `count` images; `stream` gives the stream of a purpose."""
        return {"copy": stream("copy").integers(self.count, count)} if self.count > 1 else {}


class FeatureStore(LabelledSet):
    """Features of a set of images, used as the images themselves are.

    Args:
        features: float32 [N, copies, width]; the first copy is of the image as it is.
        labels: [N].
    """

    def __init__(self, features: Tensor, labels: Tensor) -> None:
        self.features, self.labels, self.device = features, labels, features.device
        self.augmentation = Copies(features.shape[1])
        width = features.shape[2]
        self.pixel_range = PixelRange(features.new_full((width,), -torch.inf), features.new_full((width,), torch.inf))

    def augmented(self, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        """Features [B, width] of a copy of each image."""
        return self.features[index, numbers["copy"]] if "copy" in numbers else self.features[index, 0]

    def clean_at(self, rows: Tensor | slice) -> Tensor:
        """Features of images as they are, [n, width]."""
        return self.features[rows, 0]


def bytes_on_device(images: ImageSet, augmentation: Augmentation | None) -> int:
    """Memory that an `ImageStore` takes for its pixels."""
    count, height, width, channels = images.images.shape
    border = 2 * augmentation.needs_padding if augmentation else 0
    return count * (height + border) * (width + border) * channels


def _on_device(images: npt.NDArray[np.uint8] | StoredImages, padding: int, device: torch.device) -> Tensor:
    if isinstance(images, np.ndarray) and not padding:
        return _tensor(images).to(device)
    count, height, width, channels = images.shape
    shape = (count, height + 2 * padding, width + 2 * padding, channels)
    pixels = torch.zeros(shape, dtype=torch.uint8, device=device)
    inside = pixels[:, padding : padding + height, padding : padding + width]
    start = 0
    for block in blocks(images):
        inside[start : start + len(block)].copy_(_tensor(block))
        start += len(block)
    return pixels


def _tensor(values: npt.NDArray[Any]) -> Tensor:
    # torch warns about read-only arrays, such as those of a memory-mapped file: only these are copied.
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def channel_statistics(images: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pixels, scaled to 0..1."""
    channels = images.images.shape[3]
    histogram = np.zeros((channels, 256), np.int64)
    for block in blocks(images.images):
        for channel in range(channels):
            histogram[channel] += np.bincount(block[..., channel].reshape(-1), minlength=256)
    levels = np.arange(256) / 255.0
    means = [float((h * levels).sum() / h.sum()) for h in histogram]
    deviations = [
        float(np.sqrt((h * (levels - m) ** 2).sum() / h.sum())) for h, m in zip(histogram, means, strict=True)
    ]
    # A constant channel carries nothing; dividing by 1 leaves it at 0.
    return tuple(means), tuple(d if d > 0 else 1.0 for d in deviations)
