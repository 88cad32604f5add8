"""Training says when images that belong together are on both sides of a split."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from procrustean.data import ImageSet, Splits
from procrustean.data.image_groups import LikelyGroups
from procrustean.records import RunSpec
from procrustean.runs.inspect_source import inspect_source
from procrustean.runs.lint import divided_groups
from procrustean.runs.preparing import prepare

NAMES = tuple(f"{number}.png" for number in range(30))


def images(groups: list[str], names: tuple[str, ...]) -> ImageSet:
    pixels = np.random.default_rng(len(names)).integers(0, 256, (len(names), 8, 8, 3), np.uint8)
    return ImageSet(pixels, np.arange(len(names)) % 2, ("a", "b"), names, tuple(groups))


def findings(splits: Splits) -> list[str]:
    return divided_groups(prepare(RunSpec("pets", method="erm", epochs=1, device="cpu"), splits=splits))


def test_given_groups() -> None:
    train, test = images(["x"] * 10 + ["y"] * 10, NAMES[:20]), images(["y"] * 4 + ["z"] * 6, NAMES[20:])
    (found,) = findings(Splits("pets", train, test))
    assert found.startswith("4 of 10 test images belong to groups that are trained on (y): ")
    assert findings(Splits("pets", train, images(["z"] * 10, NAMES[20:]))) == []


def test_likely_groups() -> None:
    train, test = images([], NAMES[:20]), images([], NAMES[20:])
    likely = LikelyGroups("names that begin alike", {"3.png": "s", "21.png": "s", "22.png": "t", "23.png": "t"}, "x y")
    (found,) = findings(Splits("pets", train, test, likely=likely))
    assert found.startswith("1 of 10 test images probably belong together with training images, by names that begin")
    assert "such as 21.png and 3.png" in found
    assert "--group 'x y'" in found
    assert findings(Splits("pets", train, test)) == []
    assert findings(Splits("pets", train, test, likely=replace(likely, by_chance=0.1))) == []


@pytest.mark.parametrize("group", [None, r"(s\d+)-"])
def test_inspect_tells_what_it_has_found(colours: Path, tmp_path: Path, group: str | None) -> None:
    """The red pictures twice, brighter the second time."""
    root = tmp_path / "pets"
    for label in ("red", "green"):
        (root / label).mkdir(parents=True)
        for path in (colours / "train" / label).glob("*.png"):
            for copy in range(2):
                shutil.copy(path, root / label / f"s{label == 'red':d}{path.stem}-{copy}.png")
    text = inspect_source(str(root), device="cpu", group=group).text
    assert ("groups: 64; splits made here divide none of them" in text) == (group is not None)
    assert ("probably belong together, by names that begin alike: 128 images in 64 groups" in text) == (group is None)
