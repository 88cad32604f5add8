import os
import shutil
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import ConfigError, DataError
from procrustean.data import build, load_source

BCCD = Path(__file__).parents[4] / "shared" / "data" / "bccd.zip"


def picture(path, size=(8, 8), mode="RGB", seed=0, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)
    image = Image.fromarray(pixels)
    image.save(path, **options)
    return np.asarray(image.convert("RGB"))


def pictures(root, counts, **options):
    """Folders of images; returns the pixels by name."""
    made = {}
    for seed, (name, count) in enumerate(counts.items()):
        for number in range(count):
            path = root / name / f"{number}.png"
            made[f"{name}/{number}"] = picture(path, seed=100 * seed + number, **options)
    return made


def load(root, **options):
    return load_source(str(root), **options)


def test_split_folders(tmp_path):
    made = pictures(tmp_path / "pets", {"train/cat": 3, "train/dog": 2, "val/dog": 1, "test/cat": 1, "test/dog": 2})
    splits = load(tmp_path / "pets")
    assert splits.name == "pets"
    assert splits.note == ""
    assert splits.train.classes == ("cat", "dog")
    assert splits.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert splits.test.labels.tolist() == [0, 1, 1]
    assert splits.val.labels.tolist() == [1]
    expected = [made[f"train/{name}"] for name in ("cat/0", "cat/1", "cat/2", "dog/0", "dog/1")]
    assert np.array_equal(splits.train.images, expected)
    assert np.array_equal(splits.val.images[0], made["val/dog/0"])


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev", "Val"])
def test_names_of_the_validation_folder(tmp_path, name):
    pictures(tmp_path, {"train/cat": 1, "train/dog": 1, "test/cat": 1, f"{name}/cat": 2})
    assert len(load(tmp_path).val) == 2


@pytest.mark.parametrize(("train", "test"), [("Train", "Test"), ("TRAIN", "testing"), ("training", "Testing")])
def test_splits_in_capitals_and_by_longer_names(tmp_path, train, test):
    pictures(tmp_path, {f"{train}/cat": 3, f"{train}/dog": 2, f"{test}/cat": 1, f"{test}/dog": 2})
    splits = load(tmp_path)
    assert splits.train.classes == ("cat", "dog")
    assert (len(splits.train), len(splits.test)) == (5, 3)


def test_a_class_may_be_called_like_a_split(tmp_path):
    pictures(tmp_path, {"Training": 5, "dev": 5, "rest": 5})
    assert load(tmp_path).train.classes == ("Training", "dev", "rest")


def test_one_split_twice_in_two_spellings(tmp_path):
    pictures(tmp_path, {"train/cat": 1, "train/dog": 1, "Training/cat": 1})
    with pytest.raises(DataError, match="both Training and train given; keep one"):
        load(tmp_path)


def test_two_validation_folders(tmp_path):
    pictures(tmp_path, {"train/cat": 1, "train/dog": 1, "val/cat": 1, "valid/cat": 1})
    with pytest.raises(DataError, match="both val and valid"):
        load(tmp_path)


def test_without_a_test_folder_a_fifth_of_each_class_is_set_aside(tmp_path):
    made = pictures(tmp_path, {"ant": 1, "bee": 2, "cat": 4, "dog": 11})
    splits = load(tmp_path)
    assert splits.train.counts.tolist() == [1, 1, 3, 9]
    assert splits.test.counts.tolist() == [0, 1, 1, 2]
    assert "20 % per class set aside" in splits.note
    assert "not tested: ant" in splits.note
    assert load(tmp_path).hash == splits.hash
    both = [*splits.train.images, *splits.test.images]
    assert sorted(image.tobytes() for image in both) == sorted(image.tobytes() for image in made.values())


def test_classes_may_be_called_like_splits(tmp_path):
    pictures(tmp_path, {"bus": 2, "plane": 2, "train": 2})
    assert load(tmp_path).train.classes == ("bus", "plane", "train")
    pictures(tmp_path / "coins", {"valid": 2, "fake": 2})
    assert load(tmp_path / "coins").train.classes == ("fake", "valid")


@pytest.mark.parametrize("content", ["png", "jpg", "JPEG", "webp", "bmp", "gif", "tif", "ppm"])
def test_formats(tmp_path, content):
    pictures(tmp_path, {"cat": 2, "dog": 2})
    picture(tmp_path / "cat" / f"other.{content}")
    assert len(load(tmp_path).train) + len(load(tmp_path).test) == 5


def test_lossless_pixels_of_many_modes(tmp_path):
    pictures(tmp_path, {"a": 2, "test/a": 1}, size=(4, 4))
    shutil.move(tmp_path / "a", tmp_path / "train" / "a")
    folder = tmp_path / "train" / "b"
    folder.mkdir()
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4) * 16
    Image.fromarray(grey).save(folder / "0.png")
    Image.fromarray(grey.astype(np.uint16) * 256 + 77).save(folder / "1.png")
    Image.fromarray(np.dstack([grey, grey, grey, grey])).save(folder / "2.png")
    deep = (grey.astype(np.uint16) * 256 + 77).astype(">u2").tobytes()
    (folder / "3.pgm").write_bytes(b"P5 4 4 65535\n" + deep)
    palette = Image.fromarray(np.dstack([grey, grey, grey])).quantize(16)
    palette.save(folder / "4.png", transparency=bytes(range(16)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images = load(tmp_path).train.images[2:]
    for image in images[:4]:
        assert np.array_equal(image, np.dstack([grey, grey, grey]))
    assert images[4].shape == (4, 4, 3)


def test_32_bit_pixels_are_refused(tmp_path):
    pictures(tmp_path, {"a": 2, "b": 2})
    Image.fromarray(np.ones((8, 8), np.float32)).save(tmp_path / "a" / "float.tif")
    with pytest.raises(DataError, match=r"float.tif: not supported: 32-bit pixels"):
        load(tmp_path)


def test_exif_orientation_is_applied(tmp_path):
    pictures(tmp_path, {"train/a": 1, "train/b": 1, "test/a": 1})
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = picture(tmp_path / "train" / "a" / "turned.png", exif=exif)
    turned = load(tmp_path).train.images[1]
    assert np.array_equal(turned, np.rot90(stored, -1))


def test_a_common_square_size_is_kept(tmp_path):
    pictures(tmp_path, {"a": 3, "b": 3}, size=(11, 11))
    splits = load(tmp_path)
    assert splits.train.images.shape[1:] == (11, 11, 3)
    assert "resized" not in splits.note


def test_other_sizes_become_64(tmp_path):
    pictures(tmp_path, {"a": 3, "b": 3}, size=(11, 12))
    splits = load(tmp_path)
    assert splits.train.images.shape[1:] == (64, 64, 3)
    assert "not of one square size: resized to 64x64" in splits.note
    picture(tmp_path / "a" / "more.png", size=(80, 80))
    assert load(tmp_path).test.images.shape[1:] == (64, 64, 3)


def test_image_size_resizes_with_antialiasing(tmp_path):
    pictures(tmp_path, {"train/a": 1, "train/b": 1, "test/a": 1}, size=(32, 32))
    stripes = np.zeros((32, 32, 3), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "train" / "a" / "0.png")
    splits = load(tmp_path, image_size=8)
    assert splits.train.images.shape[1:] == (8, 8, 3)
    assert splits.note == "images resized to 8x8"
    assert np.abs(splits.train.images[0].astype(int) - 127).max() < 25
    assert load(tmp_path, image_size=32).note == ""


def test_image_size_must_be_positive(tmp_path):
    pictures(tmp_path, {"a": 2, "b": 2})
    with pytest.raises(ConfigError, match="at least 1 pixel, got 0"):
        load(tmp_path, image_size=0)


def test_hidden_files_and_leftovers_are_passed_over(tmp_path):
    pictures(tmp_path, {"a": 2, "b": 2})
    before = load(tmp_path).hash
    for name in (".DS_Store", "a/.hidden.txt", "a/Thumbs.db", "b/desktop.ini", "Thumbs.db"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "__MACOSX").mkdir()
    assert load(tmp_path).hash == before


@pytest.mark.parametrize("place", ["notes.txt", "a/notes.txt", "a/notes.png", "stray.png"])
def test_a_text_file_is_named(tmp_path, place):
    pictures(tmp_path, {"a": 2, "b": 2})
    (tmp_path / place).write_text("not an image")
    with pytest.raises(DataError) as refused:
        load(tmp_path)
    message = str(refused.value)
    what = "no image by its name either; move it elsewhere" if place.endswith("txt") else "remove or replace"
    assert f"{tmp_path}: 1 file cannot be used; {what}:\n  {Path(place)}: not " in message


@pytest.mark.parametrize("format_name", ["png", "jpg", "webp", "bmp", "gif", "tif"])
def test_a_truncated_image_is_named(tmp_path, format_name):
    pictures(tmp_path, {"a": 2, "b": 2}, size=(40, 40))
    broken = tmp_path / "b" / f"broken.{format_name}"
    picture(broken, size=(40, 40))
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    with pytest.raises(DataError, match=rf"b.broken.{format_name}: (damaged|not an image)"):
        load(tmp_path)


def test_an_empty_file_is_named(tmp_path):
    pictures(tmp_path, {"a": 2, "b": 2})
    (tmp_path / "a" / "zero.png").touch()
    with pytest.raises(DataError, match=r"zero.png: empty file"):
        load(tmp_path)


def test_all_bad_files_are_counted_and_the_first_named(tmp_path):
    pictures(tmp_path, {"train/a": 2, "train/b": 2, "test/a": 1}, size=(40, 40))
    whole = (tmp_path / "train" / "a" / "0.png").read_bytes()
    (tmp_path / "train" / "a" / "x.png").write_bytes(whole[: len(whole) // 2])
    for number in range(6):
        (tmp_path / "train" / "b" / f"x{number}.png").write_text("text")
    (tmp_path / "test" / "a" / "x.png").touch()
    with pytest.raises(DataError) as refused:
        load(tmp_path)
    lines = str(refused.value).splitlines()
    assert lines[0].endswith("8 files cannot be used; remove or replace:")
    assert lines[1] == f"  {Path('test/a/x.png')}: empty file"
    assert lines[2].startswith(f"  {Path('train/a/x.png')}: damaged: ")
    assert lines[-2] == f"  and 3 more; procrustean inspect {tmp_path} names all"
    assert "--on-bad-image skip" in lines[-1]
    assert len(lines) == 8


def test_what_was_never_an_image_is_told_apart_from_what_is_damaged(tmp_path):
    pictures(tmp_path, {"a": 2, "b": 2}, size=(40, 40))
    (tmp_path / "README.md").write_text("about these images")
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "b" / "lost.png").touch()
    (tmp_path / "stray.png").write_bytes((tmp_path / "a" / "0.png").read_bytes())
    with pytest.raises(DataError) as refused:
        load(tmp_path)
    assert str(refused.value).splitlines()[:6] == [
        f"{tmp_path}: 4 files cannot be used; remove or replace:",
        f"  {Path('b/lost.png')}: empty file",
        "  stray.png: not inside a class folder",
        "no images by their names either; move them elsewhere:",
        "  README.md: not inside a class folder",
        f"  {Path('a/notes.txt')}: empty file",
    ]


def test_images_of_too_many_pixels_are_bad_files(tmp_path, monkeypatch):
    pictures(tmp_path, {"a": 2, "b": 2})
    picture(tmp_path / "b" / "huge.png", size=(12, 12))
    for limit in (100, 70):  # Pillow warns above the limit and raises above twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(DataError, match=f"1 file cannot.*\n  b.huge.png: more than {limit} pixels"):
            load(tmp_path)


def test_a_test_class_without_training_images_is_named(tmp_path):
    pictures(tmp_path, {"train/a": 1, "train/b": 1, "test/a": 1, "test/owl": 1})
    with pytest.raises(DataError, match="class 'owl' is in the test split but not in the train split"):
        load(tmp_path)


@pytest.mark.parametrize("place", ["train/c", "test/b"])
def test_an_empty_class_folder_is_named(tmp_path, place):
    pictures(tmp_path, {"train/a": 1, "train/b": 1, "test/a": 1})
    (tmp_path / place).mkdir()
    (tmp_path / place / ".gitkeep").touch()
    with pytest.raises(DataError, match=f"{Path(place).name}: class folder without images"):
        load(tmp_path)


def test_all_that_is_wrong_is_named_at_once(tmp_path):
    pictures(tmp_path, {"train/a": 2, "train/b": 2, "test/a": 1})
    (tmp_path / "train" / "c").mkdir()
    (tmp_path / "train" / "b" / "1.png").write_bytes(b"no image")
    (tmp_path / "train" / "notes.txt").touch()
    with pytest.raises(DataError) as refused:
        load(tmp_path)
    for part in (
        "2 files and 1 folder cannot be used",
        "train/c: class folder without images",
        "train/b/1.png: not an image",
        "train/notes.txt: not inside a class folder",
    ):
        assert part in str(refused.value)


def test_other_layouts_are_explained(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="at least two classes with training images are needed, found 0"):
        load(tmp_path / "empty")
    pictures(tmp_path / "one", {"a": 3})
    with pytest.raises(DataError, match="at least two classes with training images are needed, found 1"):
        load(tmp_path / "one")
    picture(tmp_path / "stray" / "a.png")
    (tmp_path / "stray" / "class").mkdir()
    with pytest.raises(DataError, match="class: class folder without images"):
        load(tmp_path / "stray")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read me.txt").write_text("no image")
    with pytest.raises(DataError, match=r"read me.txt: not inside a class folder"):
        load(tmp_path / "notes")
    pictures(tmp_path / "no train", {"test/a": 1, "val/a": 1})
    with pytest.raises(DataError, match="no train folder, only test, val"):
        load(tmp_path / "no train")
    pictures(tmp_path / "mixed", {"train/a": 1, "train/b": 1, "extra/a": 1})
    with pytest.raises(DataError, match="extra: unexpected beside the train folder"):
        load(tmp_path / "mixed")
    pictures(tmp_path / "deep", {"a": 1, "b": 1, "b/inner": 1})
    with pytest.raises(DataError, match="inner: a folder inside a class folder"):
        load(tmp_path / "deep")


@pytest.mark.parametrize("on_bad_image", ["error", "skip"])
def test_a_class_folder_is_no_data_set(tmp_path, on_bad_image):
    pictures(tmp_path, {"photos/cat": 2})
    with pytest.raises(DataError, match="cat: holds images but no folders of classes; the layout is"):
        load(tmp_path / "photos" / "cat", on_bad_image=on_bad_image)


@pytest.mark.parametrize("on_bad_image", ["error", "skip"])
@pytest.mark.parametrize("below", ["", "train/"])
def test_a_folder_around_the_images_names_the_folder_in_it(tmp_path, below, on_bad_image):
    pictures(tmp_path, {f"outer/photos/{below}{name}": 2 for name in ("cat", "owl")})
    with pytest.raises(DataError, match=rf"but folders such as {tmp_path}/outer/photos/.*; the layout is"):
        load(tmp_path / "outer", on_bad_image=on_bad_image)
    load(tmp_path / "outer" / "photos")


@pytest.mark.parametrize("beside", ["readme.txt", "overview.png"])
def test_a_file_beside_the_class_folders_does_not_hide_that_they_lie_deeper(tmp_path, beside):
    pictures(tmp_path, {f"outer/photos/{name}": 2 for name in ("cat", "owl")})
    (tmp_path / "outer/photos/cat/0.png").rename(tmp_path / "outer/photos" / beside)
    with pytest.raises(DataError, match=rf"but folders such as {tmp_path}/outer/photos/.*; the layout is"):
        load(tmp_path / "outer")


def test_images_of_which_all_lie_below_their_class_folder(tmp_path):
    pictures(tmp_path, {f"{split}/{name}/day 1": 2 for name in ("cat", "owl") for split in ("train", "test")})
    with pytest.raises(DataError, match=r"but folders such as .*day 1; the layout is FOLDER/class/image"):
        load(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links and pipes")
def test_links_and_pipes_do_not_hang(tmp_path):
    pictures(tmp_path / "pets", {"a": 2, "b": 2})
    (tmp_path / "pets" / "c").symlink_to(tmp_path / "pets" / "a")
    assert load(tmp_path / "pets").train.classes == ("a", "b", "c")
    (tmp_path / "pets" / "a" / "loop").symlink_to(tmp_path / "pets")
    (tmp_path / "pets" / "b" / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pets" / "b" / "pipe")
    with pytest.raises(DataError) as refused:
        load(tmp_path / "pets")
    message = str(refused.value)
    assert "a/loop: a folder inside a class folder" in message
    assert "b/self: not a regular file" in message
    assert "b/pipe: not a regular file" in message
    (tmp_path / "pets" / "round").symlink_to(tmp_path / "pets")
    with pytest.raises(DataError, match="round"):
        load(tmp_path / "pets")
    (tmp_path / "loop" / "a").mkdir(parents=True)
    (tmp_path / "loop" / "a" / "up").symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match=r"folders such as .*up"):
        load(tmp_path / "loop")


@pytest.mark.skipif(not BCCD.is_file(), reason="the blood-cell images are not on this machine")
def test_blood_cells(tmp_path):
    with zipfile.ZipFile(BCCD) as archive:
        archive.extractall(tmp_path)
    splits = load(tmp_path / "bccd")
    assert splits.train.classes == ("Platelets", "RBC", "WBC")
    assert splits.train.counts.tolist() == [209, 2381, 214]
    assert splits.val.counts.tolist() == [83, 967, 87]
    assert splits.test.counts.tolist() == [69, 805, 71]
    assert splits.train.images.shape[1:] == (32, 32, 3)
    assert splits.note == ""
    built = build(splits, imbalance="natural")
    assert built.train.classes == ("RBC", "WBC", "Platelets")
    assert built.counts.tolist() == [2381, 214, 209]
    assert built.held_out.counts.tolist() == [967, 87, 83]
    assert built.rho == pytest.approx(2381 / 209)


def test_a_test_class_that_is_spelt_otherwise_is_told(tmp_path):
    pictures(tmp_path, {"train/RBC": 1, "train/WBC": 1, "test/RBC": 1, "test/wbc": 1})
    with pytest.raises(DataError, match=r"class 'wbc' is in the test split .*remove it\. Did you mean 'WBC'\?"):
        load(tmp_path)
