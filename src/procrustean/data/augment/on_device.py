"""An augmentation carried out on tensors: a function of the pixels and of numbers drawn ahead, of fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional as F

from procrustean.data.augment.settings import Augmentation, is_smaller, middle_of


def filter_weights(start: Tensor, length: Tensor, source: int, target: int) -> Tensor:
    """How much each old pixel counts for each new one, [B, target, source]; the rows add up to 1.

    Args:
        start: first pixel of the part along this axis, [B].
        length: its number of pixels, [B].
        source: pixels of the whole image along this axis.
        target: pixels wanted.
    """
    device = start.device
    start, length = start.float()[:, None], length.float()[:, None]
    step = length / target
    centre = start + (torch.arange(target, device=device) + 0.5) * step  # [B, target]
    # Beyond one old pixel per new one the filter widens, so that every old pixel counts.
    reach = step.clamp(min=1.0)[..., None]
    pixel = torch.arange(source, device=device)
    distance = (pixel + 0.5 - centre[..., None]).abs() / reach
    inside = (pixel >= start[..., None]) & (pixel < (start + length)[..., None])
    weights = (1 - distance).clamp(min=0.0) * inside
    return weights / weights.sum(-1, keepdim=True)


def enlarging(stored: tuple[int, int], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """What brings whole images of one height and width to another: rows @ image @ columns."""
    start = torch.zeros(1)
    rows, columns = (
        filter_weights(start, torch.tensor([old]), old, new)[0] for old, new in zip(stored, size, strict=True)
    )
    return rows, columns.T.contiguous()


def resampled(pixels: Tensor, box: Tensor, size: tuple[int, int], flip: Tensor | None = None) -> Tensor:
    """The parts `box` of images at `size`, float32 [B, channels, height, width].

    Args:
        pixels: uint8 [B, H, W, channels].
        box: top, left, height and width of each part, [B, 4].
        size: height and width wanted.
        flip: which are mirrored, bool [B]; None for none.
    """
    # In bf16, which autocast would choose, a pixel's weight has a rounding error of a whole grey level.
    with torch.autocast(pixels.device.type, enabled=False):
        rows = filter_weights(box[:, 0], box[:, 2], pixels.shape[1], size[0])
        columns = filter_weights(box[:, 1], box[:, 3], pixels.shape[2], size[1])
        if flip is not None:
            columns = torch.where(flip[:, None, None], columns.flip(1), columns)
        planes = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        batch, channels, height, width = planes.shape
        lines = torch.bmm(planes.view(batch, channels * height, width), columns.transpose(1, 2))
        return rows[:, None] @ lines.view(batch, channels, height, size[1])


#: The orders in which brightness (0), contrast (1) and saturation (2) may be changed.
ORDERS = tuple(permutations(range(3)))
#: Share of red, green and blue in the grey value (ITU-R 601-2).
GREY = (0.299, 0.587, 0.114)


def jittered(x: Tensor, factors: Tensor, order: Tensor, orders: Tensor) -> Tensor:
    """Images with other brightness, contrast and saturation, each change clipped to 0..255.

    Args:
        x: [B, channels, H, W], 0..255.
        factors: of brightness, contrast and saturation, [B, 3]; 1 changes nothing.
        order: which of `ORDERS` holds for each image, [B].
        orders: `ORDERS` as a tensor, [6, 3].
    """
    x = x.float()
    turns = orders[order]  # [B, 3]: which change comes first, second, third
    for turn in range(3):
        change = turns[:, turn]
        factor = factors.gather(1, change[:, None]).view(-1, 1, 1, 1)
        grey = _grey(x)
        level = torch.where((change == 1).view(-1, 1, 1, 1), grey.mean((2, 3), keepdim=True), grey)
        other = level * (change != 0).view(-1, 1, 1, 1)
        x = (factor * x + (1 - factor) * other).clamp(0, 255)
    return x


def holed(x: Tensor, centre: Tensor, side: int) -> Tensor:
    """Images with a black square around a pixel, cut off at the border (DeVries and Taylor 2017).

    Args:
        x: [B, channels, H, W], not yet normalised.
        centre: row and column of the square's centre, [B, 2].
        side: of the square, even.
    """
    half = side // 2
    row = torch.arange(x.shape[2], device=x.device) - centre[:, :1]
    column = torch.arange(x.shape[3], device=x.device) - centre[:, 1:]
    inside = ((row >= -half) & (row < half))[:, :, None] & ((column >= -half) & (column < half))[:, None, :]
    return x.masked_fill(inside[:, None], 0)


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """Images turned about their middle, mirrored at the border where it shows; x [B, channels, H, W], angle [B]."""
    with torch.autocast(x.device.type, enabled=False):
        x, (height, width) = x.float().contiguous(), x.shape[2:]
        cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
        # The grid counts each side from -1 to 1: in an image that is not square a turn is none there.
        rows = (cos, -sin * (height / width), zero, sin * (width / height), cos, zero)
        grid = F.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def erased(x: Tensor, box: Tensor) -> Tensor:
    """Images with the mean of their pixels in a rectangle, box [B, 4] of top, left, height and width."""
    x = x.float()
    row, column = (torch.arange(side, device=x.device) for side in x.shape[2:])
    top, left, height, width = (values[:, None] for values in box.unbind(1))
    rows, columns = (row >= top) & (row < top + height), (column >= left) & (column < left + width)
    return torch.where((rows[:, :, None] & columns[:, None, :])[:, None], x.mean((2, 3), keepdim=True), x)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue)[:, None]


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
        if spec.resized:
            x = resampled(pixels[index], numbers["box"], spec.size, numbers.get("flip"))
        elif spec.on_host:
            x = pixels[index].permute(0, 3, 1, 2)
        elif self._enlarged:
            x = resampled(pixels[index], self._whole.expand(len(index), -1), spec.size, numbers.get("flip"))
        else:
            x = self._window(pixels, index, numbers)
        if spec.vertical_flip:
            x = torch.where(numbers["upside_down"].view(-1, 1, 1, 1), x.flip(2), x)
        if spec.rotate:
            x = turned(x, numbers["angle"])
        if spec.jitter:
            x = jittered(x, numbers["colour"], numbers["colour_order"], self._orders)
        if spec.cutout:
            x = holed(x, numbers["hole"], spec.cutout)
        return erased(x, numbers["erased"]) if spec.erase else x

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
