"""An image is called the same as another only where their pixels agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.records import RunSpec
from procrustean.runs.inspect_source import inspect_source
from procrustean.runs.lint import leaks
from procrustean.runs.preparing import prepare


@pytest.fixture
def dark(colours: Path, tmp_path: Path) -> Path:
    """Bright images, and a dark one of each of three colours, which differ by a few grey values in some pixels."""
    root = shutil.copytree(colours, tmp_path / "night")
    for number, place in enumerate(("train/red", "train/blue", "test/red")):
        pixels = np.full((12, 12, 3), 4, np.uint8)
        pixels[number, :, :] = 9
        Image.fromarray(pixels).save(root / place / f"dark{number}.png")
    return root


def findings(root: Path) -> list[str]:
    return leaks(prepare(RunSpec(str(root), method="erm", epochs=1, device="cpu")))


def test_dark_images_look_alike_and_no_more(dark: Path) -> None:
    text = inspect_source(str(dark), device="cpu").text
    assert "look alike across splits: 1 group. Look at them: those that are the same make" in text
    assert "look alike in different classes: 1 group. Look at them before you change anything:" in text
    assert "pixel for pixel" not in text
    like, others = findings(dark)
    assert "1 of 25 test images look like training images, such as test/red/dark2.png as red and train/" in like
    assert others.startswith("images under different labels are alike: train/blue/dark1.png as blue, train/red/dark0")


def test_copies_in_another_format_are_the_same(dark: Path) -> None:
    with Image.open(dark / "train" / "red" / "000.png") as image:
        image.save(dark / "test" / "red" / "again.bmp")
    text = inspect_source(str(dark), device="cpu").text
    assert "across splits: 1 group, the same image pixel for pixel" in text
    assert "look alike across splits: 1 group" in text
    same, like, _ = findings(dark)
    assert "1 of 26 test images are training images too, pixel for pixel" in same
    assert "1 of 26 test images look like training images" in like


def test_all_near_duplicates_on_request(dark: Path, program: Callable[..., Any]) -> None:
    shutil.copy(dark / "train" / "red" / "001.png", dark / "train" / "red" / "again.png")
    told = program("inspect", dark, "--duplicates", "--device", "cpu").out
    assert "in one class: 1 group:\n  train/red/001.png, train/red/again.png\n" in told
    assert "\n  test/red/dark2.png, train/blue/dark1.png, train/red/dark0.png\n" in told
    assert "in one class" not in program("inspect", dark, "--device", "cpu").out
