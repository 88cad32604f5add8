"""Augmentations made of parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from procrustean.base import ConfigError
from procrustean.base.random_numbers import Stream
from procrustean.data import make_augmentation, recipe_for
from procrustean.data.augment.in_workers import augment_batch
from procrustean.data.augment.on_device import DeviceAugmentation, erased, turned
from procrustean.data.augment.settings import RANDAUGMENT, Arrays, Augmentation, erased_boxes

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 12, 16, 3), dtype=np.uint8)
CPU = torch.device("cpu")


def drawn(spec: Augmentation, count: int = len(PIXELS)) -> Arrays:
    return spec.draw(count, lambda purpose: Stream(3, purpose))


def on_device(spec: Augmentation, numbers: Arrays) -> torch.Tensor:
    tensors = {name: torch.from_numpy(values) for name, values in numbers.items()}
    return DeviceAugmentation(spec, CPU)(torch.from_numpy(PIXELS), torch.arange(len(PIXELS)), tensors)


def test_upside_down() -> None:
    spec = make_augmentation("vertical_flip", stored=(12, 16), channels=3)
    numbers = drawn(spec)
    found = on_device(spec, numbers).permute(0, 2, 3, 1).numpy()
    assert 0 < numbers["upside_down"].sum() < len(PIXELS)
    for image, before, turned_over in zip(found, PIXELS, numbers["upside_down"], strict=True):
        assert np.array_equal(image, before[::-1] if turned_over else before)


@pytest.mark.parametrize("degrees", [-12.0, 0.0, 7.0])
def test_a_turn_keeps_shapes_in_images_that_are_not_square(degrees: float) -> None:
    smooth = ndimage.gaussian_filter(np.random.default_rng(0).random((1, 1, 24, 40)), (0, 0, 4, 4))
    image = torch.from_numpy(smooth.astype(np.float32)) * 255
    found = turned(image, torch.tensor([math.radians(degrees)]))[0, 0].numpy()
    wanted = ndimage.rotate(image[0, 0].numpy(), degrees, reshape=False, order=1, mode="mirror")
    assert np.abs(found - wanted)[6:-6, 6:-6].max() < 0.5


def test_half_of_the_images_lose_a_rectangle_and_keep_their_mean() -> None:
    box = erased_boxes(12, 16, 2000, Stream(0, "erased"))
    top, left, height, width = box.T
    assert 0.45 < (height > 0).mean() < 0.55
    assert min(top.min(), left.min()) >= 0
    assert ((top + height).max(), (left + width).max()) <= (12, 16)
    x = torch.from_numpy(PIXELS).permute(0, 3, 1, 2).float()
    found = erased(x, torch.tensor([[2, 3, 4, 5]] * len(x)))
    inside = found[:, :, 2:6, 3:8]
    torch.testing.assert_close(inside, x.mean((2, 3), keepdim=True).expand_as(inside))
    found[:, :, 2:6, 3:8] = x[:, :, 2:6, 3:8]
    assert torch.equal(found, x)


def test_randaugment_draws_all_operations_and_they_change_images() -> None:
    spec = make_augmentation("pad_crop+randaugment", stored=(12, 16), channels=3, padding=2)
    numbers = drawn(spec, 500)
    assert set(numbers["policy"][:, ::2].ravel()) == set(range(len(RANDAUGMENT)))
    numbers = drawn(spec)
    plain = {name: values for name, values in numbers.items() if name != "policy"}
    identity = {**plain, "policy": np.zeros((len(PIXELS), 0), np.uint8)}
    assert not np.array_equal(augment_batch((spec, PIXELS, numbers)), augment_batch((spec, PIXELS, identity)))


def test_a_resized_crop_follows_randaugment() -> None:
    spec = make_augmentation("resized_crop+flip+randaugment", stored=(12, 16), channels=3, crop=8)
    numbers = drawn(spec)
    handed = augment_batch((spec, PIXELS, {**numbers, "policy": np.zeros((len(PIXELS), 0), np.uint8)}))
    assert np.array_equal(handed, PIXELS)
    assert on_device(spec, numbers).shape == (len(PIXELS), 3, 8, 8)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pad_crop+resized_crop", "exclude one another"),
        ("flip+flip", "each part once"),
        ("flip+rotat", "rotate"),
        ("", "no augmentation"),
    ],
)
def test_what_cannot_be_is_an_error(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_augmentation(name, stored=(8, 8), channels=3)


def test_parts_bring_what_they_imply() -> None:
    recipe = recipe_for("cifar10")
    assert recipe.changed({"augment": "pad_crop+rotate"}).flip is False
    assert recipe.changed({"augment": "resized_crop+flip"}).padding == 0
    assert recipe.changed({"augment": "random_resized_crop"}).changed({"augment": "pad_crop"}).padding == 4
    text = recipe.changed({"augment": "pad_crop+rotate+colour+erase"}).augment_text()
    assert text == "random crops after padding by 4, turns, colours changed by up to 40 %, erased rectangles"


def test_a_colour_image_is_needed_for_operations_on_colours() -> None:
    with pytest.raises(ConfigError, match="colour images"):
        make_augmentation("randaugment", stored=(8, 8), channels=1)
    assert Image.fromarray(PIXELS[0]).mode == "RGB"
