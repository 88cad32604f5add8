"""Official files that are published one by one, without an archive; those in archives are in `test_cifar`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from procrustean.base import DataError
from procrustean.data import ImageSet
from procrustean.data.sets import official_files
from procrustean.data.sets.cifar import CIFAR10
from procrustean.data.sets.data_set import Request
from procrustean.data.sets.official_files import Pair

CONTENTS = {"train.bin": bytes(range(32)), "test.bin": bytes(range(32, 64))}
PLACE = "https://example.org/data/"


def read(contents: Mapping[str, bytes]) -> Pair:
    pictures = [np.frombuffer(contents[name], np.uint8).reshape(2, 4, 4, 1) for name in CONTENTS]
    train, test = (ImageSet(images, np.array([0, 1]), ("a", "b")) for images in pictures)
    return train, test


SMALL = replace(
    CIFAR10,
    name="small",
    folder="small",
    files={name: hashlib.md5(content).hexdigest() for name, content in CONTENTS.items()},
    url=PLACE,
    archive_md5="",
    read=read,
    mirror=None,
)


@pytest.mark.filterwarnings("ignore:.*; downloading it into")
def test_each_file_is_downloaded_into_the_folder_and_found_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(url: str, target: Path, *, md5: str, say: object) -> Path:
        asked.append((url, md5))
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(CONTENTS[target.name])
        return target

    asked: list[object] = []
    monkeypatch.setattr(official_files, "fetch", fetch)
    splits = SMALL.load(Request(tmp_path))
    assert splits.train.images.tobytes() + splits.test.images.tobytes() == bytes(range(64))
    assert asked == [(PLACE + name, md5) for name, md5 in SMALL.files.items()]
    assert SMALL.absent(tmp_path) is None
    assert SMALL.load(Request(tmp_path, download=False)).hash == splits.hash
    assert len(asked) == 2


@pytest.mark.filterwarnings("ignore:.*; downloading it into")
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str, target: Path, *, md5: str, say: object) -> None:
        target.write_bytes(CONTENTS[target.name])

    monkeypatch.setattr(official_files, "fetch", fetch)
    folder = tmp_path / "small"  # named itself
    folder.mkdir()
    (folder / "test.bin").write_bytes(b"precious")
    with pytest.raises(DataError, match=r"test\.bin is not the official file"):
        SMALL.load(Request(folder))
    assert (folder / "test.bin").read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == ["test.bin", "train.bin"]


def test_what_to_put_where_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError) as refused:
        SMALL.load(Request(tmp_path, download=False))
    wanted = f"Put the files train.bin, test.bin (from {PLACE}) into {tmp_path / 'small'}.\nOr allow the download."
    assert str(refused.value).endswith(wanted)
    assert "put small there, name its folder by --data-dir" in (SMALL.absent(tmp_path) or "")
