"""An augmentation carried out on tensors: a function of the pixels and of numbers drawn ahead, of fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from procrustean.data.augment.colour import ORDERS, holed, jittered
from procrustean.data.augment.resample import resampled
from procrustean.data.augment.settings import Augmentation, is_smaller, middle_of


class DeviceAugmentation:
    """Augments batches on one device."""

    def __init__(self, spec: Augmentation, device: torch.device) -> None:
        self.spec = spec
        self._rows = torch.arange(spec.size[0], device=device)
        self._columns = torch.arange(spec.size[1], device=device)
        self._orders = torch.tensor(ORDERS, device=device)
        self._whole = torch.tensor([[0, 0, *spec.stored]], device=device)
        self._enlarged = is_smaller(spec.stored, spec.size)

    def __call__(self, pixels: Tensor, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        """Images of which the network sees `spec.size`, [B, channels, h, w], 0..255, not normalised.

        Args:
            pixels: uint8 [N, H, W, channels], with `spec.needs_padding` black pixels around each image.
            index: which of them, [B].
            numbers: as `spec.draw` gives them, for these B images.
        """
        spec = self.spec
        if spec.on_host:
            x = pixels[index].permute(0, 3, 1, 2)
        elif spec.resized:
            x = resampled(pixels[index], numbers["box"], spec.size, numbers.get("flip"))
        elif self._enlarged:
            x = resampled(pixels[index], self._whole.expand(len(index), -1), spec.size, numbers.get("flip"))
        else:
            x = self._window(pixels, index, numbers)
        if spec.jitter:
            x = jittered(x, numbers["colour"], numbers["colour_order"], self._orders)
        return holed(x, numbers["hole"], spec.cutout) if spec.cutout else x

    def middle(self, pixels: Tensor, padding: int) -> Tensor:
        """What images are tested on, [n, channels, h, w]: their middle; all of them, enlarged, where they are smaller.

        Args:
            pixels: uint8 [n, H, W, channels].
            padding: black pixels around each image.
        """
        stored, tested = self.spec.stored, self.spec.tested
        if is_smaller(stored, tested):
            inside = pixels[:, padding : padding + stored[0], padding : padding + stored[1]]
            return resampled(inside, self._whole.expand(len(pixels), -1), tested)
        top, left = (offset + padding for offset in middle_of(stored, tested))
        height, width = tested
        return pixels[:, top : top + height, left : left + width].permute(0, 3, 1, 2)

    def _window(self, pixels: Tensor, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        spec = self.spec
        top, left, flip = numbers.get("top"), numbers.get("left"), numbers.get("flip")
        down, right = middle_of(spec.stored, spec.size)
        rows = self._rows + (down + spec.padding if top is None else top[:, None])
        columns = self._columns
        if flip is not None:
            columns = torch.where(flip[:, None], spec.size[1] - 1 - columns, columns)
        columns = columns + (right + spec.padding if left is None else left[:, None])
        rows, columns = rows.expand(len(index), -1), columns.expand(len(index), -1)
        return pixels[index[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def with_border(pixels: Tensor, padding: int) -> Tensor:
    """Images [n, H, W, channels] with black pixels on each side."""
    return F.pad(pixels, (0, 0, padding, padding, padding, padding)) if padding else pixels
