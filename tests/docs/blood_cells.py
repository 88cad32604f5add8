"""A small bccd.zip for docs/own-images.md: every twentieth blood cell where they are at hand, else coloured ones."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

PROJECT = Path(__file__).resolve().parents[2]
COUNTS = {"train": (60, 12, 10), "val": (12, 8, 8), "test": (12, 8, 8)}
CLASSES = ("RBC", "WBC", "Platelets")


def write_blood_cells(path: Path) -> None:
    whole = Path(os.environ.get("PROCRUSTEAN_SHARED") or PROJECT.parent / "shared") / "data" / "bccd.zip"
    with zipfile.ZipFile(path, "w") as archive:
        if whole.is_file():
            _every_twentieth(whole, archive)
        else:
            _coloured(archive)


def _every_twentieth(whole: Path, archive: zipfile.ZipFile) -> None:
    with zipfile.ZipFile(whole) as source:
        folders: dict[str, list[str]] = {}
        for name in sorted(source.namelist()):
            if name.endswith(".png"):
                folders.setdefault(name.rpartition("/")[0], []).append(name)
        for names in folders.values():
            for name in names[::20]:
                archive.writestr(name, source.read(name))


def _coloured(archive: zipfile.ZipFile) -> None:
    random = np.random.default_rng(0)
    for split, counts in COUNTS.items():
        for channel, (name, count) in enumerate(zip(CLASSES, counts, strict=True)):
            for number in range(count):
                pixels = random.integers(0, 128, (32, 32, 3), dtype=np.uint8)
                pixels[..., channel] += 100
                memory = io.BytesIO()
                Image.fromarray(pixels).save(memory, "PNG")
                archive.writestr(f"bccd/{split}/{name}/{number:05}.png", memory.getvalue())
