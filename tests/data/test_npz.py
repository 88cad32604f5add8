import numpy as np
import pytest

from procrustean.base import DataError
from procrustean.data import load_source


def arrays(**changed):
    random = np.random.RandomState(0)
    given = {
        "train_images": random.randint(0, 256, (30, 5, 6, 3)).astype(np.uint8),
        "train_labels": np.repeat([0, 1, 2], [20, 9, 1]),
        "test_images": random.randint(0, 256, (4, 5, 6, 3)).astype(np.uint8),
        "test_labels": np.array([0, 1, 2, 1], np.uint8),
        "classes": np.array(["cat", "dog", "eel"]),
        **changed,
    }
    return {name: array for name, array in given.items() if array is not None}


def load(tmp_path, **changed):
    np.savez(tmp_path / "pets.npz", **arrays(**changed))
    return load_source(str(tmp_path / "pets.npz"))


def test_all_arrays(tmp_path):
    given = arrays()
    val = {"val_images": given["test_images"][:2], "val_labels": np.array([0, 1])}
    splits = load(tmp_path, **val)
    assert splits.name == "pets"
    assert splits.note == ""
    assert np.array_equal(splits.train.images, given["train_images"])
    assert splits.train.labels.tolist() == given["train_labels"].tolist()
    assert splits.test.labels.tolist() == [0, 1, 2, 1]
    assert splits.test.labels.dtype == np.int64
    assert splits.val.labels.tolist() == [0, 1]
    assert splits.train.classes == ("cat", "dog", "eel")


def test_compressed_files_are_read(tmp_path):
    np.savez_compressed(tmp_path / "pets.npz", **arrays())
    assert len(load_source(str(tmp_path / "pets.npz")).train) == 30


def test_grey_images_without_channel_axis(tmp_path):
    grey = {"train_images": np.zeros((30, 5, 6), np.uint8), "test_images": np.zeros((4, 5, 6, 1), np.uint8)}
    assert load(tmp_path, **grey).train.images.shape == (30, 5, 6, 1)


def test_numbers_serve_as_names(tmp_path):
    assert load(tmp_path, classes=None).train.classes == ("0", "1", "2")


def test_without_test_images_a_fifth_of_each_class_is_set_aside(tmp_path):
    splits = load(tmp_path, test_images=None, test_labels=None)
    assert splits.train.counts.tolist() == [16, 8, 1]
    assert splits.test.counts.tolist() == [4, 1, 0]
    assert splits.note.startswith("no test images given: 20 % per class set aside as test, seed 0")
    assert splits.note.endswith("; without an image to spare and so not tested: eel")
    assert load(tmp_path, test_images=None, test_labels=None).hash == splits.hash
    both = np.concatenate([splits.train.images, splits.test.images])
    given = arrays()["train_images"]
    assert sorted(image.tobytes() for image in both) == sorted(image.tobytes() for image in given)


def test_nothing_to_set_aside(tmp_path):
    one_each = {"train_images": np.zeros((3, 5, 6, 3), np.uint8), "train_labels": np.arange(3)}
    with pytest.raises(DataError, match="no class has the 2 images"):
        load(tmp_path, **one_each, test_images=None, test_labels=None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_images": None}, "no array 'train_images'; it holds train_labels"),
        ({"train_labels": None}, "no array 'train_labels'"),
        ({"test_labels": None}, "no array 'test_labels'"),
        ({"tset_images": np.zeros(3)}, "unknown array 'tset_images'. Did you mean 'test_images'"),
        ({"train_images": np.zeros((30, 5, 6, 3))}, "train split: images must be .* uint8 .* got float64"),
        (
            {"train_images": np.zeros((30, 5, 6, 4), np.uint8)},
            r"train split: images must .*got \(30, 5, 6, 4\)",
        ),
        (
            {"train_images": np.zeros((29, 5, 6, 3), np.uint8)},
            r"train split: labels must have the shape \[29\]",
        ),
        ({"test_images": np.zeros((4, 5, 5, 3), np.uint8)}, "images of the test split are"),
        ({"train_labels": np.zeros(30)}, "train_labels must be a list of whole numbers, got float64"),
        ({"train_labels": np.zeros((30, 1), int)}, r"shape \(30, 1\)"),
        ({"train_labels": np.zeros(30, object)}, "no objects"),
        (
            {"test_labels": np.zeros(0, int)},
            "test_labels is empty; give a label for each image, or leave the test split",
        ),
        ({"train_labels": np.zeros(0)}, "train_labels is empty"),
        (
            {"train_labels": np.repeat(["dog", "cat"], 15)},
            r"train_labels holds strings \('cat', 'dog', ...\); .*np.unique\(names, return_inverse=True\)",
        ),
        ({"test_labels": np.array([0, 1, 2, 3])}, "test split: labels must lie in 0..2"),
        ({"classes": np.array(["cat", "dog"])}, "0..1 .2 class names., got 0..2"),
        ({"classes": np.array([1, 2, 3])}, "classes must be a list of strings, got int64"),
        ({"classes": np.array(["cat", "cat", "eel"])}, "more than once: cat"),
    ],
)
def test_wrong_arrays(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, **changed)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04broken"])
def test_files_that_are_no_npz(tmp_path, content):
    (tmp_path / "pets.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"pets.npz: not a readable .npz") as raised:
        load_source(str(tmp_path / "pets.npz"))
    assert "pickle" not in str(raised.value)  # numpy would advise to load them


def test_a_damaged_npz(tmp_path):
    np.savez(tmp_path / "pets.npz", **arrays())
    content = bytearray((tmp_path / "pets.npz").read_bytes())
    content[600] ^= 255
    (tmp_path / "pets.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"pets.npz: not a readable .npz"):
        load_source(str(tmp_path / "pets.npz"))


def test_a_single_array_under_the_wrong_name(tmp_path):
    with (tmp_path / "pets.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match="single array"):
        load_source(str(tmp_path / "pets.npz"))


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"none.npz: there is no such file"):
        load_source(str(tmp_path / "none.npz"))
