"""Images on the device: cropped, flipped and normalised as by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from procrustean.data import ImageSet
from procrustean.data.augment.settings import Augmentation
from procrustean.engine.images import ImageStore, channel_statistics

CPU = torch.device("cpu")
Numbers = dict[str, torch.Tensor]
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def made_set(count: int = 7, height: int = 6, width: int = 5, channels: int = 3) -> ImageSet:
    random = np.random.RandomState(0)
    images = random.randint(0, 256, (count, height, width, channels)).astype(np.uint8)
    return ImageSet(images, np.arange(count, dtype=np.int64) % 2, ("a", "b"))


def made_store(images: ImageSet, padding: int) -> ImageStore:
    channels, size = images.images.shape[3], images.images.shape[1:3]
    augmentation = Augmentation(size, size, size, padding=padding, window=True, flip=True)
    return ImageStore(images, device=CPU, mean=MEAN[:channels], std=STD[:channels], augmentation=augmentation)


def numbers(top: list[int] | None = None, left: list[int] | None = None, flip: list[bool] | None = None) -> Numbers:
    given = {"top": top, "left": left, "flip": flip}
    return {name: torch.as_tensor(values) for name, values in given.items() if values is not None}


def by_hand(images: ImageSet, index: int, padding: int, top: int, left: int, flip: bool) -> np.ndarray:
    """One image as torchvision's RandomCrop, RandomHorizontalFlip, ToTensor and Normalize make it; float64."""
    picture = images.images[index]
    height, width, channels = picture.shape
    padded = np.zeros((height + 2 * padding, width + 2 * padding, channels), dtype=np.uint8)
    padded[padding : padding + height, padding : padding + width] = picture
    crop = padded[top : top + height, left : left + width]
    if flip:
        crop = crop[:, ::-1]
    result = np.empty((channels, height, width))
    for c in range(channels):
        result[c] = (crop[:, :, c] / 255.0 - MEAN[c]) / STD[c]
    return result


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("padding", [1, 4])
@pytest.mark.parametrize("flips", [True, False])
def test_augmented_against_one_image_at_a_time(channels: int, padding: int, flips: bool) -> None:
    images = made_set(channels=channels)
    random = np.random.RandomState(1)
    index = random.randint(0, 7, 40)
    top, left = random.randint(0, 2 * padding + 1, (2, 40))
    flip = random.rand(40) < 0.5
    found = made_store(images, padding).augmented(torch.from_numpy(index), numbers(top, left, flip if flips else None))
    wanted = [by_hand(images, i, padding, t, x, f and flips) for i, t, x, f in zip(index, top, left, flip, strict=True)]
    assert found.shape == (40, channels, 6, 5)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), np.stack(wanted), atol=2e-6)


def test_the_border_is_black_before_normalisation() -> None:
    images = ImageSet(np.full((1, 4, 4, 3), 255, np.uint8), np.zeros(1, np.int64), ("a",))
    corner = made_store(images, 2).augmented(torch.tensor([0]), numbers([0], [0], [False]))
    np.testing.assert_allclose(corner[0, :, 0, 0], [-m / s for m, s in zip(MEAN, STD, strict=True)], atol=1e-6)
    np.testing.assert_allclose(corner[0, :, 3, 3], [(1 - m) / s for m, s in zip(MEAN, STD, strict=True)], atol=2e-6)


@pytest.mark.parametrize("padding", [0, 3])
def test_without_crop_and_flip_images_are_clean(padding: int) -> None:
    store = made_store(made_set(), padding)
    index = torch.tensor([6, 0, 3])
    found = store.augmented(index, {})
    assert torch.equal(found, store.clean_at(slice(0, 7))[index])


@pytest.mark.parametrize("padding", [0, 3])
def test_clean(padding: int) -> None:
    images = made_set()
    found = made_store(images, padding).clean_at(slice(2, 6))
    wanted = [by_hand(images, i, 0, 0, 0, False) for i in range(2, 6)]
    np.testing.assert_allclose(found.numpy(), np.stack(wanted), atol=2e-6)
    assert made_store(images, padding).clean_at(slice(6, 100)).shape == (1, 3, 6, 5)


def test_flip_without_padding() -> None:
    images = made_set()
    found = made_store(images, 0).augmented(torch.tensor([1, 1]), numbers(flip=[True, False]))
    assert torch.equal(found[0], found[1].flip(2))
    assert not torch.equal(found[0], found[1])


@pytest.mark.parametrize("padding", [0, 2])
def test_memory_is_channels_last(padding: int) -> None:
    store = made_store(made_set(), padding)
    crop = ([0] * 3, [0] * 3) if padding else (None, None)
    found = store.augmented(torch.tensor([0, 1, 2]), numbers(*crop, [True, False, True]))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert not found.is_contiguous()
    assert store.clean_at(slice(0, 4)).is_contiguous(memory_format=torch.channels_last)


def test_pixels_stay_bytes_and_labels_come_along() -> None:
    images = made_set()
    store = made_store(images, 2)
    assert store.pixels.dtype == torch.uint8
    assert store.pixels.shape == (7, 10, 9, 3)
    assert len(store) == 7
    assert store.labels.tolist() == images.labels.tolist()


def test_read_only_arrays_cause_no_warning() -> None:
    images = made_set()
    images.images.setflags(write=False)
    images.labels.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = made_store(images, 0)
    assert store.clean_at(slice(0, 7)).shape == (7, 3, 6, 5)


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_statistics(channels: int) -> None:
    images = made_set(count=50, channels=channels)
    mean, std = channel_statistics(images)
    scaled = images.images.astype(np.float64) / 255
    np.testing.assert_allclose(mean, scaled.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(std, scaled.std((0, 1, 2)), rtol=1e-12)
    store = ImageStore(images, device=CPU, mean=mean, std=std)
    normal = store.clean_at(slice(0, 50))
    torch.testing.assert_close(normal.mean((0, 2, 3)), torch.zeros(channels), atol=1e-5, rtol=0)
    torch.testing.assert_close(normal.std((0, 2, 3), correction=0), torch.ones(channels))


def test_a_constant_channel_becomes_zero() -> None:
    images = ImageSet(np.full((2, 3, 3, 1), 77, np.uint8), np.zeros(2, np.int64), ("a",))
    mean, std = channel_statistics(images)
    assert std == (1.0,)
    assert ImageStore(images, device=CPU, mean=mean, std=std).clean_at(slice(0, 2)).abs().max() < 1e-6


def test_the_range_of_pixels_is_that_of_normalised_images() -> None:
    pixels = np.zeros((2, 2, 2, 3), dtype=np.uint8)
    pixels[1] = 255
    images = ImageSet(pixels, np.array([0, 1]), ("black", "white"))
    store = ImageStore(images, device=torch.device("cpu"), mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0))
    black, white = store.clean_at(slice(0, 2))
    torch.testing.assert_close(store.pixel_range.black.expand(3, 2, 2), black)
    torch.testing.assert_close(store.pixel_range.white.expand(3, 2, 2), white)
