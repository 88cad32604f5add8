"""A small folder of coloured pictures, and a network trained on it: what a user of own images has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean import fit

#: class -> training images; the test and validation folders hold eight of each.
COUNTS = {"blue": 8, "green": 16, "red": 48}
CHANNELS = {"red": 0, "green": 1, "blue": 2}


def picture(name: str, random: np.random.Generator, side: int = 12) -> Image.Image:
    """Noise in which one colour is stronger, and a bright square somewhere, so that no two are alike."""
    pixels = random.integers(0, 130, (side, side, 3))
    pixels[..., CHANNELS[name]] += 60
    top, left = random.integers(0, side - 4, 2)
    pixels[top : top + 4, left : left + 4] += 60
    return Image.fromarray(pixels.astype(np.uint8))


def write_folder(root: Path, counts: dict[str, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            picture(name, random).save(root / name / f"{number:03}.png")


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train, val and test folders with three classes."""
    root = tmp_path_factory.mktemp("own") / "colours"
    eight = dict.fromkeys(COUNTS, 8)
    for seed, (split, counts) in enumerate({"train": COUNTS, "val": eight, "test": eight}.items()):
        write_folder(root / split, counts, seed)
    return root


@pytest.fixture(scope="session")
def run(colours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained network with calibration."""
    folder = tmp_path_factory.mktemp("own") / "run"
    return fit(str(colours), method="erm", drw=True, epochs=20, device="cpu", run_dir=str(folder)).path


@pytest.fixture
def call(program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return program
