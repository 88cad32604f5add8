import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import ConfigError, DataError
from procrustean.data import describe_sources, load_source
from procrustean.data.sets.data_set_table import DATA_SETS, known
from procrustean.data.sources import has_validation
from procrustean.records import RunSpec


def test_unknown_names_get_a_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"unknown source 'cifar-10'.* Did you mean 'cifar10'"):
        load_source("cifar-10")
    with pytest.raises(ConfigError, match=r"unknown source 'zebra'.*Known: digits, .*FILE.npz, FOLDER"):
        load_source("zebra")


def test_paths_that_do_not_exist(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        load_source(str(tmp_path / "none"))


def test_files_of_another_kind(tmp_path):
    (tmp_path / "pets.zip").touch()
    with pytest.raises(DataError, match="neither an image folder nor a table"):
        load_source(str(tmp_path / "pets.zip"))


def test_a_known_name_wins_over_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(np.full((4, 4), 40 * number + 100 * (name == "b"), np.uint8)).save(
                tmp_path / "digits" / name / f"{number}.png"
            )
    assert len(load_source("digits").train) == 1000
    assert len(load_source("./digits").train) == 2


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    images, labels = np.arange(0, 160, 10, np.uint8).reshape(4, 2, 2), np.array([0, 0, 1, 1])
    np.savez(tmp_path / "toy.npz", train_images=images, train_labels=labels)
    assert load_source("~/toy.npz").name == "toy"


def test_a_path_is_as_good_as_its_text(tmp_path):
    images, labels = np.arange(0, 160, 10, np.uint8).reshape(4, 2, 2), np.array([0, 0, 1, 1])
    np.savez(tmp_path / "toy.npz", train_images=images, train_labels=labels)
    assert load_source(tmp_path / "toy.npz").name == "toy"
    text, path = RunSpec(str(tmp_path / "toy.npz")), RunSpec(tmp_path / "toy.npz")
    assert (path, path.hash) == (text, text.hash)
    assert RunSpec.from_json({"source": tmp_path / "toy.npz"}) == text


def test_whether_there_is_a_validation_split_is_told_without_reading_an_image(tmp_path):
    for split in ("train", "valid"):
        for name in ("a", "b"):
            (tmp_path / "mine" / split / name).mkdir(parents=True)
            (tmp_path / "mine" / split / name / "0.png").write_bytes(b"no image")
    rows = [f"mine/train/{name}/0.png,{name},train" for name in "ab"]
    for file, more in (("with.csv", ["mine/valid/a/0.png,a,val"]), ("without.csv", [])):
        (tmp_path / file).write_text("\n".join(["path,label,split", *rows, *more]))
    plain = {"train_images": np.zeros((2, 2, 2), np.uint8), "train_labels": np.array([0, 1])}
    np.savez(tmp_path / "without.npz", **plain)
    np.savez(tmp_path / "with.npz", **plain, val_images=plain["train_images"], val_labels=plain["train_labels"])
    (tmp_path / "other.zip").touch()
    for name in ("mine", "with.csv", "with.npz"):
        assert has_validation(str(tmp_path / name))
    for name in ("mine/train", "without.csv", "without.npz", "other.zip", "not-there"):
        assert not has_validation(str(tmp_path / name))
    assert all(has_validation(name) == ("val" in known(name).counts) for name in DATA_SETS)
    assert has_validation("imagenet-lt")
    assert not has_validation("cifar10")


def test_image_size_is_for_folders():
    with pytest.raises(ConfigError, match="images of digits are 8x8, got 16"):
        load_source("digits", image_size=16)
    assert load_source("digits", image_size=8).train.images.shape[1] == 8


def test_every_source_is_described():
    paths = ["FILE.npz", "FOLDER", "TABLE", "HF DATASET"]
    assert list(describe_sources()) == [*DATA_SETS, *paths]
    assert all(describe_sources().values())


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, procrustean.data as data\n"
        "data.describe_sources(), data.build, data.ImageSet\n"
        "assert set(data.__all__) <= set(dir(data)) and all(getattr(data, name) for name in data.__all__)\n"
        "print(sorted({'torch', 'sklearn', 'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_attributes_raise():
    import procrustean.data

    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = procrustean.data.nothing


def test_a_home_that_nobody_has() -> None:
    for name in ("~nobody_is_called_so/images", "~nobody_is_called_so/list.csv"):
        with pytest.raises(DataError, match="there is no such file"):
            load_source(name)


@pytest.mark.parametrize("inside", [False, True])
def test_a_folder_of_another_user_is_told_in_a_sentence(tmp_path, monkeypatch, inside):
    """`inside`: the folder can be found, and what is in it cannot be looked at."""
    (tmp_path / "theirs").mkdir()
    usual = Path.stat

    def stat(path, **settings):
        if path.is_relative_to(tmp_path / "theirs") and (path.name != "theirs" or not inside):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return usual(path, **settings)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(DataError, match=r"theirs: .*theirs.* cannot be looked at \(Permission denied\)"):
        load_source(tmp_path / "theirs")


def test_a_name_that_is_too_long_is_told_in_a_sentence():
    with pytest.raises(DataError, match="File name too long"):
        load_source("x" * 300)


def test_a_folder_that_is_not_there_is_called_so_whatever_is_to_become_of_bad_images() -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'nofolder', and no such folder\. Known: digits"):
        load_source("nofolder", on_bad_image="skip")
