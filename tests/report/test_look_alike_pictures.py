"""Images that look alike on two sides of a split, and likely groups, on the page of a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean import fit
from procrustean.data import ImageSet, Splits
from procrustean.data.fold_splits import NO_TEST
from procrustean.data.image_groups import LikelyGroups
from procrustean.records import load_result
from procrustean.report.look_alikes import look_alikes, pictured_groups
from procrustean.report.mistakes import ExampleFinder
from procrustean.report.page_data import page_data

CLASSES = ("cats", "dogs")


def images(side: str, number: int, seed: int) -> ImageSet:
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 8, 8, 3), np.uint8)
    names = tuple(f"{side}/{row}.png" for row in range(number))
    return ImageSet(pixels, np.arange(number) % 2, CLASSES, names)


@pytest.fixture
def splits() -> Splits:
    """The first test image is a training image, the second nearly one; two training images are the same."""
    train, test = images("train", 6, seed=0), images("test", 4, seed=1)
    test.images[0], test.images[1] = train.images[3], train.images[4] // 2 * 2
    train.images[1] = train.images[0]
    return Splits("pets", train, test)


def test_the_most_alike_come_first_and_those_of_one_side_not_at_all(splits: Splits) -> None:
    pairs = look_alikes(splits)
    assert [[(one.file, one.side) for one in pair] for pair in pairs] == [
        [("train/3.png", "training"), ("test/0.png", "test")],
        [("train/4.png", "training"), ("test/1.png", "test")],
    ]
    assert [one.label for one in pairs[0]] == ["dogs", "cats"]
    assert (pairs[0][0].pixels == splits.train.images[3]).all()


def test_a_pile_of_copies_on_one_side_hides_none_of_the_other(splits: Splits) -> None:
    pile = splits.train.subset([3] * 50)
    pairs = look_alikes(replace(splits, train=pile))
    assert [(one.side, other.file) for one, other in pairs] == [("training", "test/0.png")]


def test_training_images_in_place_of_test_images_are_no_pairs(splits: Splits) -> None:
    assert look_alikes(replace(splits, test=splits.train, note=NO_TEST)) == []


def test_dark_images_are_not_told_apart(splits: Splits) -> None:
    dark = [replace(part, images=part.images // 16) for part in (splits.train, splits.test)]
    assert look_alikes(Splits("pets", *dark)) == []


def test_likely_groups_are_shown_by_some_of_their_images(splits: Splits) -> None:
    assert pictured_groups(splits) == []
    of = {"train/0.png": "a", "train/2.png": "a", "test/3.png": "a", "train/5.png": "b", "gone.png": "b"}
    found = pictured_groups(replace(splits, likely=LikelyGroups("names that begin alike", of)))
    assert [[one.file for one in group] for group in found] == [
        ["train/0.png", "train/2.png", "test/3.png"],
        ["train/5.png"],
    ]


def test_they_are_on_the_page_of_own_images(splits: Splits, tmp_path: Path) -> None:
    for side, part in (("train", splits.train), ("test", splits.test)):
        for row, label in enumerate(part.labels):
            folder = tmp_path / "pets" / side / CLASSES[label]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(part.images[row]).save(folder / f"{row}.png")
    run = tmp_path / "run"
    settings = {"net": "small", "epochs": 1, "image_size": 8, "device": "cpu", "hold_out": 0}
    fit(str(tmp_path / "pets"), method="erm", run_dir=run, **settings)
    (setting,) = page_data([load_result(run)], finder=ExampleFinder(1))["settings"]
    (alike,) = setting["alike"]
    assert alike["title"].startswith("Alike on two sides")
    assert [[one["file"] for one in pair] for pair in alike["sets"]] == [
        ["train/dogs/3.png", "test/cats/0.png"],
        ["train/cats/4.png", "test/dogs/1.png"],
    ]
    assert all(one["picture"].startswith("data:image/png") for pair in alike["sets"] for one in pair)
    (without,) = page_data([load_result(run)])["settings"]
    assert without["alike"] == []
