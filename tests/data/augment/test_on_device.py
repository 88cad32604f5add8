"""Batched augmentation against one image at a time, in float64, and against Pillow."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from procrustean.base import Stream
from procrustean.data import make_augmentation
from procrustean.data.augment.on_device import ORDERS, DeviceAugmentation, holed, jittered, resampled

CPU = torch.device("cpu")
Pixels = np.ndarray


def smooth(count: int, height: int, width: int, channels: int = 3) -> Pixels:
    """Images that are not noise: rounding in Pillow's two passes then stays within a level or two."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (count, 5, 5, channels), dtype=np.uint8)
    return np.stack([np.stack([_enlarged(c, height, width) for c in image.transpose(2, 0, 1)], -1) for image in coarse])


def _enlarged(plane: Pixels, height: int, width: int) -> Pixels:
    return np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize((width, height), Image.Resampling.BICUBIC))


def line_by_hand(values: Pixels, start: int, length: int, target: int) -> Pixels:
    """Values along the first axis, resampled one by one with a triangle filter; float64."""
    step = length / target
    reach = max(step, 1.0)
    out = np.zeros((target, *values.shape[1:]))
    for place in range(target):
        centre = start + (place + 0.5) * step
        weights = {x: max(0.0, 1 - abs(x + 0.5 - centre) / reach) for x in range(start, start + length)}
        for x, weight in weights.items():
            out[place] += weight / sum(weights.values()) * values[x]
    return out


def part_by_hand(image: Pixels, box: Pixels, size: tuple[int, int], flip: bool) -> Pixels:
    top, left, height, width = (int(n) for n in box)
    rows = line_by_hand(image.astype(np.float64), top, height, size[0])
    both = line_by_hand(rows.transpose(1, 0, 2), left, width, size[1]).transpose(1, 0, 2)
    return both[:, ::-1] if flip else both


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (20, 12), (40, 40)])
def test_resized_parts_against_one_image_at_a_time(size: tuple[int, int], channels: int) -> None:
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (6, 24, 30, channels), dtype=np.uint8)
    boxes = np.array([[0, 0, 24, 30], [3, 5, 10, 9], [23, 29, 1, 1], [0, 20, 24, 10], [10, 0, 2, 30], [7, 7, 12, 16]])
    flip = np.array([False, True, False, True, True, False])
    found = resampled(torch.from_numpy(pixels), torch.from_numpy(boxes), size, torch.from_numpy(flip))
    wanted = [part_by_hand(*one) for one in zip(pixels, boxes, [size] * 6, flip, strict=True)]
    assert found.shape == (6, channels, *size)
    np.testing.assert_allclose(found.permute(0, 2, 3, 1).numpy(), np.stack(wanted), atol=1e-3)


@pytest.mark.parametrize(("height", "width", "target"), [(64, 64, 56), (32, 40, 48)])
def test_resized_parts_against_pillow(height: int, width: int, target: int) -> None:
    pixels = smooth(12, height, width)
    spec = make_augmentation("random_resized_crop", stored=(height, width), channels=3, crop=target)
    numbers = spec.draw(12, lambda purpose: Stream(0, purpose))
    tensors = {name: torch.from_numpy(values) for name, values in numbers.items()}
    found = DeviceAugmentation(spec, CPU)(torch.from_numpy(pixels), torch.arange(12), tensors).permute(0, 2, 3, 1)
    for image, box, flip, ours in zip(pixels, numbers["box"].tolist(), numbers["flip"], found, strict=True):
        top, left, high, wide = box
        part = Image.fromarray(image).crop((left, top, left + wide, top + high))
        theirs = np.asarray(part.resize((target, target), Image.Resampling.BILINEAR)).astype(np.float64)
        np.testing.assert_allclose(ours.numpy(), theirs[:, ::-1] if flip else theirs, atol=1.01)


def test_low_precision_does_not_reach_the_resampling() -> None:
    pixels = torch.from_numpy(smooth(3, 20, 20))
    boxes = torch.tensor([[1, 2, 17, 11]] * 3)
    plain = resampled(pixels, boxes, (16, 16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(resampled(pixels, boxes, (16, 16)), plain)


@pytest.mark.parametrize("name", ["pad_crop_flip", "flip", "none"])
def test_windows_of_larger_images_against_one_at_a_time(name: str) -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (9, 12, 15, 3), dtype=np.uint8)
    spec = make_augmentation(name, stored=(12, 15), channels=3, crop=7, padding=2)
    numbers = spec.draw(20, lambda purpose: Stream(0, purpose))
    index = random.integers(0, 9, 20)
    tensors = {key: torch.from_numpy(values) for key, values in numbers.items()}
    border = ((0, 0), (spec.padding,) * 2, (spec.padding,) * 2, (0, 0))
    padded = np.pad(pixels, border)
    found = DeviceAugmentation(spec, CPU)(torch.from_numpy(padded), torch.from_numpy(index), tensors)
    assert spec.padding == (2 if name == "pad_crop_flip" else 0)
    for row, which in enumerate(index):
        top = int(numbers["top"][row]) if "top" in numbers else 2
        left = int(numbers["left"][row]) if "left" in numbers else 4
        wanted = padded[which, top : top + 7, left : left + 7]
        if name != "none" and numbers["flip"][row]:
            wanted = wanted[:, ::-1]
        assert np.array_equal(found[row].permute(1, 2, 0).numpy(), wanted)


def test_the_middle_is_that_of_a_centre_crop() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), dtype=np.uint8)
    spec = make_augmentation("none", stored=(256, 256), channels=3, evaluation_crop=224)
    found = DeviceAugmentation(spec, CPU).middle(torch.from_numpy(pixels), padding=0)
    assert np.array_equal(found.permute(0, 2, 3, 1).numpy(), pixels[:, 16:240, 16:240])


def test_images_smaller_than_what_is_seen_are_enlarged() -> None:
    pixels = smooth(3, 20, 20)
    for name in ("none", "flip", "random_resized_crop"):
        spec = make_augmentation(name, stored=(20, 20), channels=3, crop=28, evaluation_crop=28)
        middle = DeviceAugmentation(spec, CPU).middle(torch.from_numpy(pixels), padding=0).permute(0, 2, 3, 1)
        for image, ours in zip(pixels, middle, strict=True):
            theirs = np.asarray(Image.fromarray(image).resize((28, 28), Image.Resampling.BILINEAR))
            np.testing.assert_allclose(ours.numpy(), theirs.astype(np.float64), atol=1.01)
    mirrored = {"flip": torch.tensor([True] * 3)}
    spec = make_augmentation("flip", stored=(20, 20), channels=3, crop=28, evaluation_crop=28)
    device = DeviceAugmentation(spec, CPU)
    flipped = device(torch.from_numpy(pixels), torch.arange(3), mirrored)
    torch.testing.assert_close(flipped.flip(3), device.middle(torch.from_numpy(pixels), padding=0))


def jitter_by_hand(image: Pixels, factors: Pixels, order: int) -> Pixels:
    """One image in float64, one change after the other."""
    image = image.astype(np.float64)
    for change in ORDERS[order]:
        grey = image @ np.array([0.299, 0.587, 0.114]) if image.shape[2] == 3 else image[..., 0]
        other = {0: 0.0, 1: grey.mean(), 2: grey[..., None]}[change]
        image = np.clip(factors[change] * image + (1 - factors[change]) * other, 0, 255)
    return image


@pytest.mark.parametrize("channels", [1, 3])
def test_colour_jitter_against_one_image_at_a_time(channels: int) -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (12, 6, 7, channels), dtype=np.uint8)
    factors = random.uniform(0.3, 1.7, (12, 3)).astype(np.float32)
    order = np.arange(12) % 6
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    found = jittered(x, torch.from_numpy(factors), torch.from_numpy(order), torch.tensor(ORDERS))
    wanted = [jitter_by_hand(*one) for one in zip(pixels, factors, order.tolist(), strict=True)]
    np.testing.assert_allclose(found.permute(0, 2, 3, 1).numpy(), np.stack(wanted), atol=1e-3)


def test_colour_jitter_against_pillow() -> None:
    pixels = smooth(6, 16, 16)
    factors = np.random.default_rng(0).uniform(0.6, 1.4, (6, 3)).astype(np.float32)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    found = jittered(x, torch.from_numpy(factors), torch.arange(6), torch.tensor(ORDERS)).permute(0, 2, 3, 1)
    kinds = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for number, (image, ours) in enumerate(zip(pixels, found, strict=True)):
        theirs = Image.fromarray(image)
        for change in ORDERS[number]:
            theirs = kinds[change](theirs).enhance(float(factors[number, change]))
        np.testing.assert_allclose(ours.numpy(), np.asarray(theirs).astype(np.float64), atol=4)  # it truncates thrice


def test_holes_against_one_image_at_a_time() -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(1, 256, (30, 3, 20, 24), dtype=np.uint8)
    centre = np.stack([random.integers(0, 20, 30), random.integers(0, 24, 30)], axis=1)
    centre[:2] = [[0, 0], [19, 23]]
    found = holed(torch.from_numpy(pixels), torch.from_numpy(centre), 16).numpy()
    for image, (y, x), ours in zip(pixels, centre, found, strict=True):
        wanted = image.copy()
        wanted[:, max(y - 8, 0) : y + 8, max(x - 8, 0) : x + 8] = 0
        assert np.array_equal(ours, wanted)


def test_all_parts_work_together() -> None:
    spec = make_augmentation("strong", stored=(20, 20), channels=3, jitter=0.4)
    numbers = {n: torch.from_numpy(v) for n, v in spec.draw(5, lambda purpose: Stream(0, purpose)).items()}
    pixels = torch.from_numpy(smooth(5, 20, 20))
    found = DeviceAugmentation(spec, CPU)(pixels, torch.arange(5), numbers)
    x = jittered(pixels.permute(0, 3, 1, 2), numbers["colour"], numbers["colour_order"], torch.tensor(ORDERS))
    assert torch.equal(found, holed(x, numbers["hole"], 16)), "window, flip and policy were done on the host"
