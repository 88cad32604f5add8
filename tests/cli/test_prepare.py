"""procrustean data prepare and verify, as a user meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.data.sets import tiny_imagenet


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Tiny-ImageNet of three classes with three training images each."""
    monkeypatch.setattr(tiny_imagenet, "PER_CLASS", 3)
    source = tmp_path / "tiny-imagenet-200"
    classes = ["n01443537", "n01629819", "n02124075"]
    random = np.random.default_rng(0)
    for name in classes:
        (source / "train" / name / "images").mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(source / "train" / name / "images" / f"{name}_{number}.JPEG")
    (source / "val" / "images").mkdir(parents=True)
    lines = []
    for number in range(6):
        pixels = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(source / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{classes[number % 3]}\t0\t0\t9\t9\n")
    (source / "val" / "val_annotations.txt").write_text("".join(lines))
    (source / "wnids.txt").write_text("\n".join(classes))
    return source


@pytest.fixture
def answer(call: Any) -> Any:
    """`answer(..., code=2)`: like `call`, with the exit code checked."""

    def run(*arguments: object, code: int = 0) -> Any:
        found = call(*arguments)
        assert found.code == code, found.err
        return found

    return run


def test_a_data_set_is_prepared_described_and_verified(
    tiny: Path, tmp_path: Path, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("procrustean.base.progress.SILENT_WITHIN_EPOCH", 0)
    data = ("--data-dir", tmp_path / "data")
    refused = answer("data", "prepare", "tiny-imagenet", "--source", tiny, *data, code=2)
    assert "Tiny-ImageNet cannot be prepared: 2 problems" in refused.err
    assert "train: 3 classes, 200 expected" in refused.err
    checked = answer("data", "prepare", "tiny-imagenet", "--source", tiny, *data, "--dry-run", code=2)
    assert "test: 3 classes, 200 expected" in checked.out
    assert "15 images of 3 classes, 0.000184 GB at 64 x 64" in checked.err
    made = answer("data", "prepare", "tiny-imagenet", "--source", tiny, *data, "--on-bad-image", "skip", "--workers", 1)
    assert "9 train, 6 test images of 3 classes" in made.out
    assert f"procrustean train tiny-imagenet --data-dir {tmp_path / 'data'}" in made.out
    assert "decoding: 15 of 15\n" in made.err
    assert "not comparable with published" in made.err
    assert "tiny-imagenet" in answer("data", "describe", "tiny-imagenet", *data).out
    assert "all 15 images are as they were written" in answer("data", "verify", "tiny-imagenet", *data).out
    again = answer("data", "prepare", "tiny-imagenet", "--source", tiny, *data, "--on-bad-image", "skip")
    assert "complete already" in again.err


def test_the_command_that_trains_on_it_can_be_pasted(tiny: Path, tmp_path: Path, answer: Any) -> None:
    data = ("--data-dir", tmp_path / "my data")
    prepare = ("data", "prepare", "tiny-imagenet", "--source", tiny, *data, "--on-bad-image", "skip", "--workers", 1)
    assert f"train tiny-imagenet --data-dir '{tmp_path / 'my data'}'\n" in answer(*prepare).out
    small = f"train tiny-imagenet --image-size 32 --data-dir '{tmp_path / 'my data'}'\n"
    assert small in answer(*prepare, "--size", 32).out


def test_a_folder_that_cannot_be_written_into_is_told(tiny: Path, tmp_path: Path, answer: Any) -> None:
    (tmp_path / "file").touch()
    flags = ("--source", tiny, "--data-dir", tmp_path / "file" / "data", "--workers", 1)
    for how in ("error", "skip"):
        told = answer("data", "prepare", "tiny-imagenet", *flags, "--on-bad-image", how, code=2).err
        assert "cannot write into" in told
        assert f"{tmp_path / 'file'} is no folder; choose another --data-dir" in told


def test_what_is_missing_is_told(tmp_path: Path, answer: Any) -> None:
    without = answer("data", "prepare", "imagenet-lt", code=2)
    assert "no --source received. Get ImageNet" in without.err
    assert "procrustean data prepare imagenet-lt --source FOLDER" in without.err
    assert "is not downloaded" in answer("data", "prepare", "tiny-imagenet", "--download", code=2).err
    assert "no such folder" in answer("data", "prepare", "tiny-imagenet", "--source", tmp_path / "no", code=2).err
    flags = ("--source", tmp_path, "--size", "0")
    assert "size = 0 received" in answer("data", "prepare", "tiny-imagenet", *flags, code=2).err
    assert "has not been prepared" in answer("data", "verify", "tiny-imagenet", "--data-dir", tmp_path, code=2).err
    assert "has not been prepared" in answer("train", "inaturalist18", "--data-dir", tmp_path, code=2).err
