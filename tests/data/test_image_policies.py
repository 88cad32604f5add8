"""What becomes of odd images, names and folders: one test for each rule that docs/reliability.md states."""

from __future__ import annotations

import json
import shutil
import struct
import threading
import time
import unicodedata
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.base import ConfigError, DataError, stop_signals
from procrustean.base import progress as progress_room
from procrustean.base.stop_signals import StopRequest
from procrustean.data import build, image_files, imageset, load_source
from procrustean.data.image_files import BYTES_PER_PIXEL, SHARE, LargeImages
from procrustean.data.imageset import StoredImages
from procrustean.data.sources import list_source

GREY = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)
RED = (200, 30, 60)


def save(path: Path, image: Image.Image, form: str = "PNG", **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, form, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Cats and dogs, to which each test adds the image it is about, as the last one of the training dogs."""
    for number, name in enumerate(("train/cat", "train/dog", "test/cat", "test/dog")):
        for copy in range(2):
            save(tmp_path / name / f"{copy}.png", Image.new("RGB", (8, 8), (40 * number, 90 * copy, 5)))
    return tmp_path


def odd(folder: Path, name: str = "odd.png") -> Path:
    return folder / "train/dog" / name


def shown(folder: Path) -> np.ndarray[Any, Any]:
    return load_source(str(folder)).train.images[-1]


# Colours


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_becomes_rgb(folder: Path, form: str) -> None:
    colour = Image.new("RGB", (8, 8), RED)
    save(odd(folder), colour.convert("CMYK"), form, **({"quality": 100} if form == "JPEG" else {}))
    assert np.abs(shown(folder).astype(int) - RED).max() <= 2


@pytest.mark.parametrize("mode", ["L", "LA", "1"])
def test_grey_is_repeated_in_three_channels(folder: Path, mode: str) -> None:
    image = Image.fromarray(GREY).convert(mode)
    save(odd(folder), image)
    expected = np.asarray(image.convert("L"))
    assert np.array_equal(shown(folder), np.dstack([expected] * 3))


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_transparency_is_dropped_and_the_colour_below_it_shown(folder: Path, mode: str) -> None:
    if mode == "RGBA":
        save(odd(folder), Image.new("RGBA", (8, 8), (*RED, 0)))
    else:
        palette = Image.new("P", (8, 8), 1)
        palette.putpalette([0, 0, 0, *RED])
        save(odd(folder), palette, transparency=bytes([255, 0]))
    assert np.array_equal(shown(folder), np.full((8, 8, 3), RED, np.uint8))


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_to_eight(folder: Path, form: str) -> None:
    save(odd(folder), Image.fromarray(GREY.astype(np.uint16) * 256 + 99), form)
    assert np.array_equal(shown(folder), np.dstack([GREY] * 3))


def shallow(folder: Path, bits: int, side: int = 8) -> None:
    """Every image grey with 16 bits, of which it uses the lower ones."""
    for number, path in enumerate(sorted(folder.rglob("*.png"))):
        pixels = np.random.RandomState(number).randint(0, 2**bits, (side, side)).astype(np.uint16)
        pixels[0, 0] = 2**bits - 1
        save(path, Image.fromarray(pixels))


def test_sixteen_bit_images_that_use_few_bits_are_told_with_what_to_do(folder: Path) -> None:
    shallow(folder, 12)
    note = load_source(str(folder)).note
    assert "8 images of 16 bits use 12 of them at most: no value is above 4095 of 65535" in note
    assert "15 of 255 at most, so they are dark" in note
    assert "multiply 16 FILES" in note
    for path in folder.rglob("*.png"):  # what the remedy does
        Image.fromarray(np.asarray(Image.open(path)) * 16).save(path)
    assert load_source(str(folder)).note == ""
    assert load_source(str(folder)).train.images.max() == 255


def test_sixteen_bit_images_that_cannot_be_split_are_told_too(folder: Path) -> None:
    shallow(folder, 12, side=32)
    with pytest.raises(DataError, match=r"(?s)images are nearly black, .* look the same.*no value is above 4095 of"):
        load_source(str(folder / "train"))


def test_near_duplicates_that_are_so_for_being_dark_are_told_as_such(folder: Path) -> None:
    for number, path in enumerate(sorted((folder / "train").rglob("*.png"))):
        save(path, Image.new("L", (8, 8), 7 * number + 1))
    save(odd(folder), Image.new("L", (8, 8), 29))
    assert "near-duplicates, kept together" not in load_source(str(folder / "train")).note
    save(odd(folder), Image.new("L", (8, 8), 24))
    assert "near-duplicates, kept together (the images are nearly black" in load_source(str(folder / "train")).note


def test_sixteen_bit_images_that_use_their_bits_are_not_worth_a_word(folder: Path) -> None:
    shallow(folder, 15)
    assert load_source(str(folder)).note == ""


def test_colours_of_sixteen_bits_are_told_too(folder: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0))
    rows = zlib.compress(b"".join(b"\0" + np.full(24, 4000, ">u2").tobytes() for _ in range(8)))
    odd(folder).write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    assert shown(folder).max() == 15
    assert "1 images of 16 bits use 12 of them at most: no value is above 4095" in load_source(str(folder)).note


def test_the_camera_s_orientation_is_followed(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 8  # a quarter turn
    image = Image.fromarray(np.dstack([GREY, GREY, GREY]))
    save(odd(folder), image, exif=exif)
    assert np.array_equal(shown(folder)[..., 0], np.rot90(GREY))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_frame_is_used_and_the_run_says_so(folder: Path, form: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, (0, 255, 0), (0, 0, 255))]
    options = {"lossless": True} if form == "WEBP" else {}
    save(odd(folder), frames[0], form, save_all=True, append_images=frames[1:], **options)
    splits = load_source(str(folder))
    assert np.abs(splits.train.images[-1].astype(int) - RED).max() <= 4
    assert "1 image with several frames or pages: the first one is used" in splits.note


# Files


@pytest.mark.parametrize(
    ("form", "name"), [("JPEG", "odd.png"), ("PNG", "odd.JPG"), ("GIF", "odd"), ("PNG", "odd.txt")]
)
def test_the_content_counts_and_not_the_name(folder: Path, form: str, name: str) -> None:
    save(odd(folder, name), Image.new("RGB", (8, 8), RED), form)
    assert len(load_source(str(folder)).train) == 5


def claimed_size(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that says that it is this large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "zero bytes": (lambda: b"", "empty file"),
    "truncated": (lambda: encoded("PNG")[:-30], "(damaged|not an image)"),
    "text": (lambda: b"not an image", "not an image"),
    "web page": (lambda: b"<!DOCTYPE html><html></html>", "not an image"),
    "64k x 64k": (lambda: claimed_size(65535, 65535), "more than [0-9,]+ pixels"),
    "64k x 2k": (lambda: claimed_size(65535, 2048), "more than [0-9,]+ pixels"),
    "vector graphics": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n", "not an image"),
    "video": (lambda: b"\0\0\0\x18ftypisom", "not an image"),
    "phone": (
        lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1",
        "(damaged|not supported: HEIC)",
    ),
    "browser": (lambda: b"\0\0\0\x1cftypavif\0\0\0\0", "(damaged|not supported: AVIF)"),
    "X-ray": (lambda: bytes(128) + b"DICM\2\0", "not supported: DICOM"),
}


def encoded(form: str) -> bytes:
    content = BytesIO()
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (8, 8, 3)).astype(np.uint8)).save(content, form)
    return content.getvalue()


@pytest.mark.filterwarnings("ignore")  # Pillow says so when it finds metadata cut
@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF"])
def test_a_file_cut_anywhere_is_refused_or_shows_what_the_whole_one_does(form: str, folder: Path) -> None:
    whole = encoded(form)
    odd(folder).write_bytes(whole)
    expected, refused = shown(folder), 0
    for length in range(1, len(whole), 1 + len(whole) // 40):
        odd(folder).write_bytes(whole[:length])
        try:
            assert np.array_equal(shown(folder), expected), length
        except DataError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_named_and_nothing_is_loaded(kind: str, folder: Path) -> None:
    content, reason = BAD[kind]
    odd(folder).write_bytes(content())
    with pytest.raises(DataError, match=rf"1 file cannot be used.*\n  train/dog/odd\.png: {reason}"):
        load_source(str(folder))


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_left_out_when_asked_and_the_run_says_so(kind: str, folder: Path) -> None:
    without = load_source(str(folder))
    odd(folder).write_bytes(BAD[kind][0]())
    splits = load_source(str(folder), on_bad_image="skip")
    assert splits.hash == without.hash
    assert "1 left out that cannot be used: train/dog/odd.png (" in splits.note
    assert splits.note.endswith("classes counted again")


def test_leaving_images_out_changes_counts_and_hashes(folder: Path) -> None:
    before = build(load_source(str(folder)), imbalance="natural")
    (folder / "train/cat/1.png").write_bytes(b"")
    after = build(load_source(str(folder), on_bad_image="skip"), imbalance="natural")
    assert before.counts.tolist() == [2, 2]
    assert after.counts.tolist() == [2, 1]
    assert after.train.classes == ("dog", "cat")  # the larger class first
    assert after.split_hash != before.split_hash
    assert after.source_hash != before.source_hash


def test_without_bad_files_both_ways_load_the_same(folder: Path) -> None:
    skipping = load_source(str(folder), on_bad_image="skip")
    assert skipping.hash == load_source(str(folder)).hash
    assert skipping.note == ""


def test_a_class_without_training_images_is_left_out_with_its_test_images(folder: Path) -> None:
    save(folder / "train/fox/0.png", Image.new("RGB", (8, 8)))
    save(folder / "train/owl/0.png", Image.new("RGB", (8, 8)))
    save(folder / "test/owl/0.png", Image.new("RGB", (8, 8)))
    (folder / "train/owl/0.png").write_bytes(b"")
    splits = load_source(str(folder), on_bad_image="skip")
    assert splits.train.classes == ("cat", "dog", "fox")
    assert splits.test.counts.tolist() == [2, 2, 0]
    assert "classes left out for want of training images: owl" in splits.note


def test_leaving_out_has_an_end(folder: Path) -> None:
    for path in (folder / "train/cat").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"at least two class.* with .*images are needed, found 1"):
        load_source(str(folder), on_bad_image="skip")


def test_a_test_set_without_a_good_image_is_not_replaced_by_training_images(folder: Path) -> None:
    for path in (folder / "test").rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"no image of the test \w+ can be used"):
        load_source(str(folder), on_bad_image="skip")


@pytest.mark.parametrize("on_bad_image", ["error", "skip"])
def test_nor_is_a_test_folder_that_is_empty(folder: Path, on_bad_image: Any) -> None:
    shutil.rmtree(folder / "test")
    (folder / "test").mkdir()
    with pytest.raises(DataError, match=r"no image of the test split can be used; .* remove the split"):
        load_source(str(folder), on_bad_image=on_bad_image)


def test_nor_are_test_images_without_a_label(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As competitions give them, in a folder and in a table."""
    for number, path in enumerate(sorted((folder / "test").rglob("*.png"))):
        path.rename(folder / "test" / f"{number}.png")
    files = [(path, path.parent.name) for path in sorted((folder / "train").rglob("*.png"))]
    rows = [f"{path},{label},train" for path, label in files] + [f"{folder}/test/0.png,,test"]
    table = tmp_path_factory.mktemp("tables") / "list.csv"
    table.write_text("\n".join(["path,label,split", *rows]))
    for source in (folder, table):
        with pytest.raises(DataError, match="no image of the test split can be used"):
            load_source(str(source), on_bad_image="skip")


def test_folders_and_stray_files_are_left_out_too(folder: Path) -> None:
    without = load_source(str(folder))
    (folder / "train/empty").mkdir()
    (folder / "train/notes.txt").write_text("x")
    (folder / "train/cat/inner").mkdir()
    splits = load_source(str(folder), on_bad_image="skip")
    assert splits.hash == without.hash
    assert "3 left out" in splits.note
    assert "train/empty (class folder without images)" in splits.note


@pytest.mark.parametrize("source", ["digits", "arrays.npz"])
def test_leaving_out_is_for_folders(source: str) -> None:
    with pytest.raises(ConfigError, match="on_bad_image is for image f"):
        load_source(source, on_bad_image="skip")


# Memory


def plain(folder: Path, side: int) -> None:
    """Every image a palette of one colour, which takes nearly nothing in a file."""
    for path in folder.rglob("*.png"):
        save(path, Image.new("P", (side, side)))


def test_many_pixels_are_in_a_file_that_nobody_sees_and_all_is_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, room, photos = np.random.RandomState(0), tmp_path / "room", str(tmp_path / "photos")
    for number in range(16):
        noise = random.randint(0, 256, (8, 8, 3)).astype(np.uint8)
        save(tmp_path / "photos" / "ab"[number % 2] / f"{number}.png", Image.fromarray(noise))
    (tmp_path / "photos" / "a" / "bad.png").write_bytes(b"x")
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(room))
    in_memory = [load_source(photos, on_bad_image="skip", fold=fold) for fold in (None, "1/2")]
    monkeypatch.setattr(imageset, "IN_MEMORY", 0)
    in_file = [load_source(photos, on_bad_image="skip", fold=fold) for fold in (None, "1/2")]
    for one, other in zip(in_memory, in_file, strict=True):
        assert isinstance(other.train.images, StoredImages)
        assert (one.hash, one.note) == (other.hash, other.note)
        assert np.array_equal(one.test.images, np.asarray(other.test.images))
    assert list(room.iterdir()) == []


def test_pixels_that_no_disk_has_room_for_are_refused_before_one_is_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(folder, 300)
    monkeypatch.setattr(imageset, "IN_MEMORY", 0)
    monkeypatch.setattr(imageset.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    monkeypatch.setattr(image_files, "_decode", lambda *_: pytest.fail("an image was decoded"))
    with pytest.raises(DataError, match=r"8 images of 300 x 300 pixels take 0.00216 GB on disk, .* --image-size"):
        load_source(str(folder))


# Names


@pytest.mark.parametrize("name", ["Gürteltier", "猫", "кот", "🐈", "a b", "x" * 250, "$\\frac$", "=1+1", "<script>"])
def test_any_name_will_do_for_a_class(name: str, folder: Path) -> None:
    save(folder / "train" / name / "0.png", Image.new("RGB", (8, 8)))
    splits = load_source(str(folder))
    assert sorted(splits.train.classes) == sorted(["cat", "dog", name])
    json.dumps(splits.train.classes)


def test_two_ways_to_write_the_same_name_are_one_class(folder: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Löwe") for form in ("NFC", "NFD"))
    assert composed != decomposed
    save(folder / "train" / composed / "0.png", Image.new("RGB", (8, 8)))
    save(folder / "test" / decomposed / "0.png", Image.new("RGB", (8, 8)))
    splits = load_source(str(folder))
    assert splits.train.classes[0] == composed
    assert splits.test.counts.tolist() == [1, 2, 2]


def test_files_of_the_same_name_in_two_classes_are_two_images(folder: Path) -> None:
    assert len(load_source(str(folder)).train) == 4  # 0.png and 1.png in each


def test_a_name_that_is_no_text(folder: Path) -> None:
    try:
        save(folder / "train" / "b\udcffd" / "0.png", Image.new("RGB", (8, 8)))
    except OSError:
        pytest.skip("this file system refuses such names")
    assert len(load_source(str(folder)).train.classes) == 3


# Classes


def test_a_class_with_one_image_is_trained_on_and_not_tested(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    for name, count in {"cat": 5, "dog": 5, "owl": 1}.items():
        for number in range(count):
            noise = Image.fromarray(random.randint(0, 256, (8, 8, 3)).astype(np.uint8))
            save(tmp_path / name / f"{number}.png", noise)
    splits = load_source(str(tmp_path))
    assert splits.train.counts.tolist() == [4, 4, 1]
    assert splits.test.counts.tolist() == [1, 1, 0]
    assert "not tested: owl" in splits.note
    assert build(splits, imbalance="natural", hold_out=1).left_out_classes == ("owl",)


def test_a_class_that_is_only_tested_is_refused(folder: Path) -> None:
    save(folder / "test/owl/0.png", Image.new("RGB", (8, 8)))
    with pytest.raises(DataError, match=r"class 'owl' is in the test \w+ but not in the train"):
        load_source(str(folder))


@pytest.mark.parametrize("label", [-1, 2, 2**40])
def test_a_label_outside_the_range_is_refused(label: int, tmp_path: Path) -> None:
    labels = np.array([0, 1, 1, label])
    np.savez(tmp_path / "a.npz", train_images=np.zeros((4, 2, 2), np.uint8), train_labels=labels, classes=["a", "b"])
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.1 \(2 class names\), got"):
        load_source(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(("side", "together"), [(4, 8), (20, 1)])
def test_large_images_wait_for_one_another(side: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "free_memory", lambda: 800 * BYTES_PER_PIXEL * SHARE)
    large, now, most, lock = LargeImages(threads=8), 0, 0, threading.Lock()

    def decode(number: int) -> int:
        nonlocal now, most
        with large.turn_of(Image.new("L", (side, side))):
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.02)
            with lock:
                now -= 1
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decode, range(16))) == list(range(16))
    assert 1 <= most <= together
    assert together < 8 or most > 1


def test_how_far_the_reading_is_is_told_from_a_second_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = list_source(str(folder)).files
    told: list[tuple[str, int, int]] = []
    image_files.headers(files, {}, lambda *progress: told.append(progress))
    assert told == []  # it takes no time
    seconds = iter(range(1000))
    monkeypatch.setattr(progress_room, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(image_files, "MOST_IN_TURN", 1)
    image_files.headers(files, {}, lambda *progress: told.append(progress))
    assert told == [("looking at images", done, len(files)) for done in range(1, len(files) + 1)]


def test_a_stop_ends_the_reading_and_what_waits_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(400):
        save(tmp_path / "ab"[number % 2] / f"{number}.png", Image.new("RGB", (8, 8)))
    listing, opened = list_source(str(tmp_path)), list[str]()
    asked = StopRequest()

    def header(image: Image.Image) -> None:
        opened.append("one")
        asked.signal = 2
        time.sleep(0.001)

    monkeypatch.setattr(image_files, "_header", header)
    monkeypatch.setattr(stop_signals, "_HEARD", [asked])
    with pytest.raises(stop_signals.Interrupted):
        listing.load()
    assert len(opened) < 200
