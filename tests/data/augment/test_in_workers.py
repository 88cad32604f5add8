"""AutoAugment's policy and the image-by-image part of the strong augmentation."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from procrustean.base import Stream
from procrustean.data import make_augmentation
from procrustean.data.augment.in_workers import OPERATIONS, apply_policy, augment_batch
from procrustean.data.augment.settings import POLICY, draw_choices


def picture(side: int = 32) -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def test_the_policy_has_25_pairs_of_known_operations() -> None:
    assert len(POLICY) == 25
    used = {name for pair in POLICY for name, _, _ in pair}
    assert used <= OPERATIONS.keys()
    assert all(0 <= share <= 1 and 0 <= strength <= 9 for pair in POLICY for _, share, strength in pair)


def test_choices_follow_the_probabilities() -> None:
    choices = draw_choices(50_000, Stream(0, "policy"))
    assert choices.shape == (50_000, 5)
    assert (np.bincount(choices[:, 0]) > 1800).all()
    for pair, operations in enumerate(POLICY):
        chosen = choices[choices[:, 0] == pair]
        for place, (_, share, _) in enumerate(operations):
            assert abs(chosen[:, 1 + place].mean() - share) < 0.04
    assert np.abs(choices[:, 3:].mean(axis=0) - 0.5).max() < 0.02


def test_what_is_not_chosen_is_not_done() -> None:
    image = picture()
    for pair in range(25):
        assert np.array_equal(np.asarray(apply_policy(image, np.array([pair, 0, 0, 1, 1], np.uint8))), image)


def test_the_two_operations_are_done_in_order() -> None:
    image = picture()
    found = apply_policy(image, np.array([23, 1, 1, 0, 0], np.uint8))  # equalize, then invert
    assert np.array_equal(np.asarray(found), np.asarray(ImageOps.invert(ImageOps.equalize(image))))
    only = apply_policy(image, np.array([23, 0, 1, 0, 0], np.uint8))
    assert np.array_equal(np.asarray(only), np.asarray(ImageOps.invert(image)))


@pytest.mark.parametrize("name", ["translate_x", "translate_y"])
def test_what_a_shift_uncovers_is_grey(name: str) -> None:
    image = Image.fromarray(np.zeros((33, 33, 3), np.uint8))
    moved = np.asarray(OPERATIONS[name](image, 1.0, 1))
    across = moved[0] if name == "translate_x" else moved[:, 0]
    assert across[:18].max() == 0  # 33 * 150 / 331 is 14.95
    assert (across[-14:] == 128).all()
    back = np.asarray(OPERATIONS[name](image, 1.0, -1))
    assert np.array_equal(back, moved[::-1, ::-1])


def plain(name: str) -> str:
    return name.replace("_", "").lower()


@pytest.mark.usefixtures("torchvision")
def test_the_policy_is_torchvisions() -> None:
    from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

    for ours, published in zip(POLICY, AutoAugment(AutoAugmentPolicy.CIFAR10).policies, strict=True):
        for (name, share, strength), (their_name, their_share, their_strength) in zip(ours, published, strict=True):
            assert (plain(name), share) == (their_name.lower(), their_share), name
            assert their_strength is None or strength == their_strength, name


@pytest.mark.usefixtures("torchvision")
def test_every_operation_at_every_strength_is_torchvisions() -> None:
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy, _apply_op

    image = picture()
    space = AutoAugment(AutoAugmentPolicy.CIFAR10)._augmentation_space(10, (32, 32))
    names = {plain(name): name for name in OPERATIONS}
    for their_name, (values, signed) in space.items():
        name = names[their_name.lower()]
        how = InterpolationMode.BICUBIC if name.startswith("shear") else InterpolationMode.NEAREST
        for strength in range(10):
            value = float(values[strength]) if values.ndim else 0.0
            for sign in (1, -1) if signed else (1,):
                # A shift is given there by where a pixel goes to, in whole pixels, here by where it comes from.
                given = -sign * round(value) if name.startswith("translate") else sign * value
                wanted = np.asarray(_apply_op(image, their_name, given, how, [128.0] * 3)).astype(int)
                found = np.asarray(OPERATIONS[name](image, strength / 9, sign)).astype(int)
                same = (np.abs(found - wanted).max(axis=2) <= 2).mean()
                # Their threshold of solarize ends at 255, one grey level may differ; so may the border of a shear.
                least = {"solarize": 0.95, "shear_x": 0.99, "shear_y": 0.99}
                assert same >= least.get(name, 1.0), (name, strength, sign, same)


def test_a_batch_against_one_image_at_a_time() -> None:
    spec = make_augmentation("strong", stored=(20, 24), channels=3, crop=18, padding=3)
    pixels = np.stack([np.asarray(picture(40))[n : n + 20, n : n + 24] for n in range(16)])
    numbers = spec.draw(16, lambda purpose: Stream(4, purpose))
    found = augment_batch((spec, pixels, numbers))
    assert found.shape == (16, 18, 18, 3)
    for row, image in enumerate(pixels):
        padded = ImageOps.expand(Image.fromarray(image), 3)
        left, top = int(numbers["left"][row]), int(numbers["top"][row])
        window = padded.crop((left, top, left + 18, top + 18))
        if numbers["flip"][row]:
            window = ImageOps.mirror(window)
        assert np.array_equal(found[row], np.asarray(apply_policy(window, numbers["policy"][row])))
