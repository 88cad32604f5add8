"""The images of the golden cases, the same on every machine: a folder to train on, and two to predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from sklearn.datasets import load_digits

#: Images of a class to train on, sixty in all; as many images of every class are predicted as of the smallest.
COUNTS = {"left": 30, "middle": 20, "right": 10}
SIDE = 12


def write_images(folder: Path) -> None:
    """`train/CLASS/*.png`, and in `predict-colours` and `predict-digits` what is predicted."""
    for place, (name, count) in enumerate(COUNTS.items()):
        for number in range(count):
            _write(folder / "train" / name / f"{number:02}.png", _stripe(place, seed=100 * place + number))
        for number in range(4):
            _write(folder / "predict-colours" / f"{name}-{number}.png", _stripe(place, seed=1000 + 10 * place + number))
    for number, image in enumerate(load_digits().images[:12]):
        _write(folder / "predict-digits" / f"{number:02}.png", np.rint(image * 255 / 16).astype(np.uint8))


def _stripe(place: int, seed: int) -> npt.NDArray[np.uint8]:
    """Noise with a stripe at a place of its class; of integers that numpy promises never to change."""
    noise = np.random.RandomState(seed).randint(0, 160, (SIDE, SIDE, 3))
    noise[:, 4 * place : 4 * place + 4, place] += 60
    return noise.astype(np.uint8)


def _write(path: Path, pixels: npt.NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
