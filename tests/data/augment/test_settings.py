"""What an augmentation is by name, and the numbers it draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from procrustean.base import ConfigError, Stream
from procrustean.data import make_augmentation
from procrustean.data.augment.named_parts import NAMES
from procrustean.data.augment.settings import Augmentation, resized_crop_boxes


def stream(purpose: str) -> Stream:
    return Stream(3, purpose)


def made(name: str, **changes: object) -> Augmentation:
    settings: dict[str, object] = {"stored": (32, 32), "channels": 3, "padding": 4, **changes}
    return make_augmentation(name, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("pad_crop_flip", {"top", "left", "flip"}),
        ("random_resized_crop", {"box", "flip"}),
        ("strong", {"top", "left", "flip", "policy", "hole"}),
        ("flip", {"flip"}),
        ("none", set()),
    ],
)
def test_each_name_draws_what_it_needs(name: str, drawn: set[str]) -> None:
    assert set(made(name).draw(5, stream)) == drawn
    assert set(made(name, flip=False).draw(5, stream)) == drawn - ({"flip"} if name in NAMES else set())
    assert set(made(name, jitter=0.4).draw(5, stream)) == drawn | {"colour", "colour_order"}


def test_windows_lie_inside_the_padded_image() -> None:
    numbers = made("pad_crop_flip", stored=(10, 14), crop=8, padding=1).draw(4000, stream)
    assert np.bincount(numbers["top"]).shape == (5,)
    assert np.bincount(numbers["left"]).shape == (9,)
    assert min(np.bincount(numbers["top"]).min() / 800, np.bincount(numbers["left"]).min() / 444) > 0.8


def test_a_window_of_the_whole_image_needs_no_offsets() -> None:
    assert set(made("pad_crop_flip", padding=0).draw(3, stream)) == {"flip"}


def test_colour_factors_and_holes_cover_their_ranges() -> None:
    numbers = made("strong", jitter=0.4, stored=(20, 24)).draw(5000, stream)
    assert 0.6 <= numbers["colour"].min() < 0.61 < 1.39 < numbers["colour"].max() < 1.4
    assert numbers["colour"].dtype == np.float32
    assert set(numbers["colour_order"].tolist()) == set(range(6))
    assert numbers["hole"].min(axis=0).tolist() == [0, 0]
    assert numbers["hole"].max(axis=0).tolist() == [19, 23]


def test_one_number_does_not_disturb_another() -> None:
    one, other = made("strong").draw(9, stream), made("strong", jitter=0.2, flip=False).draw(9, stream)
    for name in one.keys() & other.keys():
        assert np.array_equal(one[name], other[name]), name


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("strnog", {}, "there is no augmentation 'strnog'. Did you mean 'strong'"),
        ("pad_crop_flip", {"crop": 40}, r"windows of 40 x 40 pixels, but the images are 32 x 32; prepare them larger"),
        ("strong", {"channels": 1}, r"'strong' is for colour images, got 1 channel"),
        ("none", {"jitter": 1.5}, "jitter = 1.5 received"),
    ],
)
def test_what_cannot_be_is_refused(name: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(name, **changes)


def box_by_hand(height: int, width: int, uniforms: np.ndarray, place: np.ndarray) -> tuple[int, int, int, int]:
    """One image after the other: the first of ten parts that fits, else the middle."""
    for area_draw, ratio_draw in uniforms.tolist():
        area = height * width * (0.08 + 0.92 * area_draw)
        ratio = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * ratio_draw)
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(place[0] * (height - h + 1)), int(place[1] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * (4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(("height", "width"), [(64, 64), (48, 64), (10, 90), (90, 10)])
def test_parts_against_one_image_at_a_time(height: int, width: int) -> None:
    found = resized_crop_boxes(height, width, 500, Stream(1, "crop"), smallest=0.08)
    same = Stream(1, "crop")
    uniforms, places = same.uniforms(500, 10, 2).astype(np.float64), same.uniforms(500, 2).astype(np.float64)
    wanted = [box_by_hand(height, width, u, p) for u, p in zip(uniforms, places, strict=True)]
    assert found.tolist() == [list(box) for box in wanted]
    assert (found[:, :2] >= 0).all()
    assert (found[:, 0] + found[:, 2] <= height).all()
    assert (found[:, 1] + found[:, 3] <= width).all()
    if height == width:
        share = found[:, 2] * found[:, 3] / (height * width)
        assert 0.07 < share.min() < 0.12
        assert 0.9 < share.max() <= 1
    else:
        middle = box_by_hand(height, width, np.ones((1, 2)) * 2, places[0])
        assert (middle in wanted) == (max(height, width) > 80), "only very long images ever miss ten times"
