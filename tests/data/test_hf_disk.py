from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import DataError
from procrustean.data import load_source

datasets = pytest.importorskip("datasets")


def made(labels: list[int], seed: int = 0, names: tuple[str, ...] = ("cat", "dog"), **columns: str) -> object:
    random = np.random.default_rng(seed)
    pictures = [Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)) for _ in labels]
    features = {"image": datasets.Image(), columns.get("label", "label"): datasets.ClassLabel(names=list(names))}
    content = {"image": pictures, columns.get("label", "label"): labels}
    return datasets.Dataset.from_dict(content, features=datasets.Features(features))


def test_a_data_set_without_splits(tmp_path: Path) -> None:
    made([0] * 10 + [1] * 5).save_to_disk(str(tmp_path / "pets"))  # type: ignore[attr-defined]
    splits = load_source(str(tmp_path / "pets"))
    assert splits.name == "pets"
    assert splits.train.classes == ("cat", "dog")
    assert (splits.train.counts + splits.test.counts).tolist() == [10, 5]


def test_splits_keep_their_roles(tmp_path: Path) -> None:
    parts = {"train": made([0, 0, 1, 1]), "validation": made([0, 1], 1), "test": made([0, 1, 1], 2)}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "pets"))
    splits = load_source(str(tmp_path / "pets"), image_size=4)
    assert splits.train.counts.tolist() == [2, 2]
    assert splits.val is not None
    assert splits.val.counts.tolist() == [1, 1]
    assert splits.test.counts.tolist() == [1, 2]
    assert splits.train.images.shape[1:] == (4, 4, 3)


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": made([0, 1]), "extra": made([0, 1])}).save_to_disk(str(tmp_path / "a"))
    with pytest.raises(DataError, match="unknown split 'extra'"):
        load_source(str(tmp_path / "a"))
    made([0, 1], label="species").save_to_disk(str(tmp_path / "b"))  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="no column of labels; it holds 'image', 'species'"):
        load_source(str(tmp_path / "b"))
    made([0, 1, 1, -1]).save_to_disk(str(tmp_path / "c"))  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="row 4: no label"):
        load_source(str(tmp_path / "c"))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "dataset_info.json").write_text("{")
    with pytest.raises(DataError, match="not a readable data set of save_to_disk"):
        load_source(str(tmp_path / "d"))


def test_a_label_without_a_name_is_named_or_left_out(tmp_path: Path) -> None:
    made([0, 0, 0, 1, 1, 1, 2], names=("cat", "dog", "owl")).save_to_disk(str(tmp_path / "pets"))  # type: ignore[attr-defined]
    info = tmp_path / "pets" / "dataset_info.json"
    info.write_text(info.read_text().replace('"owl"', "").replace('"dog",', '"dog"'))
    with pytest.raises(DataError, match="row 7: label 2, but there are 2 class names"):
        load_source(str(tmp_path / "pets"))
    splits = load_source(str(tmp_path / "pets"), on_bad_image="skip")
    assert (splits.train.counts + splits.test.counts).tolist() == [3, 3]
    assert "row 7 (label 2" in splits.note


def test_a_class_that_is_only_tested_is_refused_or_left_out(tmp_path: Path) -> None:
    names = ("cat", "dog", "owl")
    parts = {"train": made([0, 0, 1, 1], names=names), "test": made([0, 1, 2], 1, names=names)}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "pets"))
    with pytest.raises(DataError, match="class 'owl' is in the test split but not in the train split"):
        load_source(str(tmp_path / "pets"))
    splits = load_source(str(tmp_path / "pets"), on_bad_image="skip")
    assert splits.train.classes == ("cat", "dog")
    assert splits.test.counts.tolist() == [1, 1]
    assert "classes left out for want of training images: owl" in splits.note


def test_arrays_that_point_outside_of_their_file_are_refused(tmp_path: Path) -> None:
    """They would be read as they are: other memory of the process, or its end."""
    part = made([0, 0, 1, 1])
    part.save_to_disk(str(tmp_path / "pets"))  # type: ignore[attr-defined]
    pictures = part.cast_column("image", datasets.Image(decode=False))["image"]  # type: ignore[attr-defined]
    ends = np.cumsum([0, *(len(picture["bytes"]) for picture in pictures)]).astype("<i4")
    file = next((tmp_path / "pets").glob("*.arrow"))
    content = file.read_bytes()
    assert content.count(ends.tobytes()) == 1
    far = ends.copy()
    far[2:] += 1 << 29
    file.unlink()  # which may be mapped by now
    file.write_bytes(content.replace(ends.tobytes(), far.tobytes()))
    with pytest.raises(DataError, match=r"pets: damaged .*; save it again"):
        load_source(str(tmp_path / "pets"))
