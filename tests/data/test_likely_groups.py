"""Images that probably belong together are found without a word from the user; independent ones are not."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.data import load_source
from procrustean.data.image_groups import STEM, LikelyGroups

CLASSES, SCENES, FRAMES = 2, 20, 3


def scenes(root: Path, name: str, *, alike: bool = True, times: bool = False) -> LikelyGroups | None:
    """Frames of scenes, nearly equal or independent of one another, and what is found among them."""
    random = np.random.default_rng(0)
    for scene in range(CLASSES * SCENES):
        pixels = random.integers(0, 256, (16, 16, 3))
        for frame in range(FRAMES):
            seen = pixels + random.normal(0, 25, pixels.shape) if alike else random.integers(0, 256, (16, 16, 3))
            image = Image.fromarray(np.clip(seen, 0, 255).astype(np.uint8))
            file = root / "ab"[scene % CLASSES] / name.format(scene=scene, frame=frame, number=9 * scene + frame)
            file.parent.mkdir(exist_ok=True)
            exif = Image.Exif()
            if times:
                when = datetime(2020, 1, 1) + timedelta(hours=scene, seconds=frame)
                exif.get_ifd(0x8769)[0x9003] = when.strftime("%Y:%m:%d %H:%M:%S")
            image.save(file, exif=exif)
    return load_source(root).likely


def test_names_that_begin_alike(tmp_path: Path) -> None:
    found = scenes(tmp_path, "p{scene:03}_{frame}.png")
    assert found is not None
    assert (found.how, found.number, len(found.of)) == ("names that begin alike", 40, 120)
    assert found.examples(1) == [["a/p000_0.png", "a/p000_1.png", "a/p000_2.png"]]
    splits = load_source(tmp_path, group=STEM)
    assert splits.likely is None
    assert not set(splits.train.groups) & set(splits.test.groups)


def test_numbers_that_follow_on_one_another(tmp_path: Path) -> None:
    found = scenes(tmp_path, "IMG_{number:04}.png")
    assert found is not None
    assert (found.how, found.option) == ("numbers in their names that follow on one another", "")
    assert found.of["a/IMG_0002.png"] == "a/IMG_0000.png"
    assert found.number >= 38  # a third frame may be nearer than the second


def test_times(tmp_path: Path) -> None:
    found = scenes(tmp_path, "{scene:03}{frame}x.jpg", times=True)
    assert found is not None
    assert found.how == "photographs taken within 60 seconds"
    assert found.number >= 38  # a third frame may be nearer than the second


@pytest.mark.parametrize("name", ["p{scene:03}_{frame}.png", "IMG_{number:04}.png", "{scene:03}{frame}x.jpg"])
def test_independent_images_do_not_belong_together(tmp_path: Path, name: str) -> None:
    assert scenes(tmp_path, name, alike=False, times=name.endswith("jpg")) is None


def test_a_column_is_believed_by_its_name(tmp_path: Path) -> None:
    scenes(tmp_path, "{scene:03}-{frame}x.png", alike=False)
    rows = [f"{path.relative_to(tmp_path)},{path.parent.name},{path.name[:3]}" for path in tmp_path.glob("*/*.png")]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,Patient ID", *rows]))
    found = load_source(tmp_path / "list.csv").likely
    assert found is not None
    assert (found.option, found.number) == ("Patient ID", 40)
