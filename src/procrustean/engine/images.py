"""A set of images on the device, as bytes; cropped, flipped and normalised by the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..data.imageset import ImageSet
from ..types import PixelRange


class ImageStore:
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
        padding: int = 0,
    ) -> None:
        p = padding
        padded = np.pad(images.images, ((0, 0), (p, p), (p, p), (0, 0))) if p else images.images
        self.pixels = _tensor(padded).to(device)  # uint8 [N, H + 2p, W + 2p, channels]
        self.labels = _tensor(images.labels).to(device)  # [N]
        self.height, self.width, self.padding = images.images.shape[1], images.images.shape[2], padding
        # (pixel / 255 - mean) / std as one multiply and add.
        self.scale = torch.tensor([1 / (255 * s) for s in std], dtype=torch.float32, device=device)
        self.shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], dtype=torch.float32, device=device)
        self._rows = torch.arange(self.height, device=device)
        self._columns = torch.arange(self.width, device=device)

    @property
    def pixel_range(self) -> PixelRange:
        """What pixels of 0 and 255 become."""
        black = self.shift.view(-1, 1, 1)
        return PixelRange(black, black + 255 * self.scale.view(-1, 1, 1))

    def __len__(self) -> int:
        return len(self.labels)

    def augmented(self, index: Tensor, top: Tensor | None, left: Tensor | None, flip: Tensor | None) -> Tensor:
        """Cropped and flipped images [B, channels, H, W], channels last in memory.

        Args:
            index: which images, [B].
            top, left: corner of the crop in the padded image, [B]; None for the middle.
            flip: which are mirrored, bool [B]; None for none.
        """
        rows = self._rows + (self.padding if top is None else top[:, None])
        columns = self._columns
        if flip is not None:
            columns = torch.where(flip[:, None], self.width - 1 - columns, columns)
        columns = columns + (self.padding if left is None else left[:, None])
        rows, columns = rows.expand(len(index), -1), columns.expand(len(index), -1)
        return self._normalised(self.pixels[index[:, None, None], rows[:, :, None], columns[:, None, :]])

    def clean(self, start: int, stop: int) -> Tensor:
        """Images start to stop as they are, [n, channels, H, W]."""
        p = self.padding
        return self._normalised(self.pixels[start:stop, p : p + self.height, p : p + self.width])

    def _normalised(self, pixels: Tensor) -> Tensor:
        return (pixels * self.scale + self.shift).permute(0, 3, 1, 2)


def _tensor(values: npt.NDArray[Any]) -> Tensor:
    # torch warns about read-only arrays, such as those of a memory-mapped file: only these are copied.
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def channel_statistics(images: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pixels, scaled to 0..1."""
    histogram = [np.bincount(images.images[..., c].reshape(-1), minlength=256) for c in range(images.images.shape[3])]
    levels = np.arange(256) / 255.0
    means = [float((h * levels).sum() / h.sum()) for h in histogram]
    deviations = [
        float(np.sqrt((h * (levels - m) ** 2).sum() / h.sum())) for h, m in zip(histogram, means, strict=True)
    ]
    # A constant channel carries nothing; dividing by 1 leaves it at 0.
    return tuple(means), tuple(d if d > 0 else 1.0 for d in deviations)
