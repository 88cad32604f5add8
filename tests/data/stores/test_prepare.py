"""Each official layout, whole and with every fault: what is found, what is told, what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.base import ConfigError, DataError
from procrustean.data.sets.prepared_files import prepared_set
from procrustean.data.stores import store_writer as building
from procrustean.data.stores.prepare import Plan, plan, prepare
from procrustean.data.stores.store import open_store, store_path, verify
from procrustean.data.stores.store_writer import Chunk
from procrustean.data.workers import WorkerPool

NAMES = ("tiny", "tiered", "imagenet-lt", "inaturalist", "inaturalist-lists")
Make = Callable[..., Any]


def planned(mini: Any, root: Path, **settings: Any) -> Plan:
    return plan(mini.known, mini.source, root=root, **{"workers": 1, "size": 24, **settings})


def by_hand(path: Path, size: int, resize: str) -> np.ndarray:
    """An image as Pillow's resizing and cropping make it, in two steps."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if resize == "crop":
        scale = size / min(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = (image.width - size) // 2, (image.height - size) // 2
        return np.asarray(image.crop((left, top, left + size, top + size)))
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("name", NAMES)
def test_a_complete_data_set_is_stored_as_it_is(name: str, miniature: Make, tmp_path: Path) -> None:
    mini = miniature(name)
    plans = planned(mini, tmp_path / "data")
    assert plans.problems == {}
    assert plans.gigabytes == pytest.approx(plans.images * 24 * 24 * 3 / 1e9)
    assert plans.seconds > 0
    store = prepare(plans)
    assert store.path == store_path(tmp_path / "data", mini.name, 24)
    assert store.manifest["problems"] == {}
    assert sorted(store.classes) == sorted({c for files in mini.images.values() for c in files.values()})
    for split, files in mini.images.items():
        found = store.split(split)
        stored = {
            (store.classes[label], image.tobytes()) for label, image in zip(found.labels, found.images[:], strict=True)
        }
        assert len(found) == len(files)
        for file, of_class in files.items():
            wanted = by_hand(mini.source / file, 24, mini.known.resize)
            near = [pixels for label, pixels in stored if label == of_class and _near(pixels, wanted)]
            assert near, file
    assert verify(store.path) == plans.images


def _near(pixels: bytes, wanted: np.ndarray) -> bool:
    found = np.frombuffer(pixels, np.uint8).reshape(wanted.shape).astype(int)
    return bool(np.abs(found - wanted).mean() < 4)


@pytest.mark.parametrize("name", NAMES)
def test_every_fault_is_named_and_nothing_is_stored(name: str, miniature: Make, tmp_path: Path) -> None:
    mini = miniature(name, faults=True)
    plans = planned(mini, tmp_path / "data")
    with pytest.raises(DataError, match="cannot be prepared") as refused:
        prepare(plans)
    message = str(refused.value)
    for fault, named in mini.faults.items():
        if fault != "truncated":
            assert named in message, fault
    assert "--on-bad-image skip" in message
    listed = plans.target.with_name(plans.target.name + ".problems.txt")
    assert str(listed) in message
    assert len(listed.read_text().splitlines()) == len(plans.problems)
    assert not plans.target.exists()


@pytest.mark.parametrize("name", NAMES)
def test_skipping_leaves_out_what_is_at_fault_and_counts_again(name: str, miniature: Make, tmp_path: Path) -> None:
    mini = miniature(name, faults=True)
    plans, said = planned(mini, tmp_path / "data"), list[str]()
    store = prepare(plans, on_bad_image="skip", say=said.append)
    listed = plans.target.with_name(plans.target.name + ".problems.txt").read_text()
    for fault, named in mini.faults.items():
        assert named in listed, fault
    assert f"{mini.faults['truncated']}: damaged: " in listed
    for split, files in mini.usable.items():
        found = store.split(split)
        kept = {c: list(files.values()).count(c) for c in store.classes}
        assert dict(zip(found.classes, found.counts.tolist(), strict=True)) == kept, split
    told = "\n".join(said)
    assert "counted again" in told
    assert "not comparable with published" in told
    assert mini.faults["truncated"] in store.manifest["problems"]


def test_a_class_without_training_images_is_left_out(miniature: Make, tmp_path: Path) -> None:
    store = prepare(planned(miniature("tiny", faults=True), tmp_path), on_bad_image="skip")
    assert store.classes == ("n01443537", "n01629819")
    assert store.manifest["classes_left_out"] == ["n02124075"]
    assert (store.labels[store.labels >= 0] < 2).all()
    assert set(store.split("test").labels.tolist()) == {0, 1}


def test_a_damaged_image_alone_is_refused_and_can_be_mended(miniature: Make, tmp_path: Path) -> None:
    mini = miniature("imagenet-lt")
    broken = mini.source / "train/n01443537/n01443537_1.JPEG"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(DataError, match=r"train/n01443537/n01443537_1.JPEG: empty file"):
        prepare(planned(mini, tmp_path / "data"))
    broken.write_bytes(whole)
    store = prepare(planned(mini, tmp_path / "data"))
    row = next(row for row in store.rows("train") if np.asarray(store.images[row]).any())
    assert row == 0
    assert all(np.asarray(store.images[row]).any() for row in range(len(store.images)))


def test_a_stopped_call_goes_on_where_it_was(miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mini = miniature("imagenet-lt")
    monkeypatch.setattr(building, "CHUNK_BYTES", 3 * 24 * 24 * 3)
    decoded: list[int] = []
    run = WorkerPool.run

    def counted(self: WorkerPool, job: Any) -> Any:
        if len(decoded) == 2:
            raise KeyboardInterrupt
        decoded.append(len(job.images))
        return run(self, job)

    monkeypatch.setattr(WorkerPool, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        prepare(planned(mini, tmp_path / "data"))
    plans = planned(mini, tmp_path / "data")
    assert not plans.target.exists()
    draft = plans.target.with_name(f".{plans.target.name}.partial")
    done = len((draft / "done.jsonl").read_text().splitlines())
    assert 0 < done <= 2
    with (draft / "done.jsonl").open("a") as journal:
        journal.write('{"chunk": 4, "sha')  # the line that was being written
    monkeypatch.setattr(WorkerPool, "run", run)
    said: list[str] = []
    steps: list[tuple[int, int]] = []
    store = prepare(plans, say=said.append, progress=lambda *step: steps.append(step))
    assert any("going on after" in line for line in said)
    assert steps[0] == (3 * done, 20)
    assert steps[-1] == (20, 20)
    assert verify(store.path) == 20
    assert not draft.exists()
    whole = prepare(planned(mini, tmp_path / "other"))
    assert whole.digest == store.digest
    assert np.array_equal(whole.images, store.images)


@pytest.mark.parametrize("then", ["error", "skip"])
def test_what_was_mended_while_a_call_was_stopped_is_decoded_again(
    then: Any, miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mini = miniature("imagenet-lt")
    broken = mini.source / "train/n01443537/n01443537_1.JPEG"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    monkeypatch.setattr(building, "CHUNK_BYTES", 3 * 24 * 24 * 3)

    def stopped(done: int, total: int) -> None:
        if done > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(planned(mini, tmp_path), on_bad_image="skip", progress=stopped)
    broken.write_bytes(whole)
    store = prepare(planned(mini, tmp_path), on_bad_image=then)
    assert store.manifest["problems"] == {}
    assert (store.labels >= 0).all()
    assert verify(store.path) == 20


def test_a_draft_of_other_images_is_thrown_away(miniature: Make, tmp_path: Path) -> None:
    mini = miniature("imagenet-lt")
    plans = planned(mini, tmp_path)
    draft = plans.target.with_name(f".{plans.target.name}.partial")
    draft.mkdir(parents=True)
    (draft / "plan.json").write_text(json.dumps({"listing": "another"}))
    said: list[str] = []
    prepare(plans, say=said.append)
    assert any("starting over" in line for line in said)


def test_a_complete_store_is_not_made_again(miniature: Make, tmp_path: Path) -> None:
    mini = miniature("tiny")
    first = prepare(planned(mini, tmp_path))
    said: list[str] = []
    assert prepare(planned(mini, tmp_path), say=said.append).digest == first.digest
    assert "complete already" in said[0]
    with pytest.raises(DataError, match="prepared from other images or in another way"):
        prepare(planned(mini, tmp_path, resize="crop"))


def test_too_little_room_is_refused_before_decoding(
    miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    plans = planned(miniature("tiny"), tmp_path)
    monkeypatch.setattr(WorkerPool, "run", lambda self, job: pytest.fail("nothing may be decoded"))
    with pytest.raises(DataError, match=r"1e-09 GB free, .* GB needed; make room"):
        prepare(replace(plans, free_gigabytes=1e-9))


@pytest.mark.parametrize(
    ("layout", "damage", "message"),
    [
        ("tiny", lambda s: (s / "wnids.txt").unlink(), "no wnids.txt, so this is not tiny-imagenet-200"),
        ("tiny", lambda s: (s / "val/val_annotations.txt").unlink(), "no val/val_annotations.txt"),
        (
            "imagenet-lt",
            lambda s: (s / "ImageNet_LT_val.txt").unlink(),
            "ImageNet_LT_val.txt was not found in .*--lists",
        ),
        ("inaturalist", lambda s: (s / "val2018.json").unlink(), "neither val2018.json nor iNaturalist18_val.txt"),
        ("inaturalist", lambda s: (s / "val2018.json").write_text("{}"), "not the annotations of iNaturalist 2018"),
        ("inaturalist", lambda s: (s / "val2018.json").write_bytes(b"\xff\xfe{"), "cannot be read"),
        ("tiered", lambda s: (s / "train").rename(s / "elsewhere"), "neither class folders such as n01530575"),
    ],
)
def test_another_folder_is_told_from_a_data_set(
    layout: str, damage: Callable[[Path], object], message: str, miniature: Make, tmp_path: Path
) -> None:
    mini = miniature(layout)
    damage(mini.source)
    with pytest.raises(DataError, match=message):
        planned(mini, tmp_path)
    mini.source = tmp_path / "none"
    with pytest.raises(DataError, match="there is no such folder"):
        planned(mini, tmp_path)


def test_validation_images_may_lie_in_one_folder(miniature: Make, tmp_path: Path) -> None:
    mini = miniature("imagenet-lt")
    for file in list((mini.source / "val").rglob("*.JPEG")):
        file.rename(mini.source / "val" / file.name)
    for folder in list((mini.source / "val").iterdir()):
        if folder.is_dir():
            folder.rmdir()
    plans = planned(mini, tmp_path)
    assert plans.problems == {}
    assert len(plans.listing.parts["test"].labels) == 6


def test_lists_may_lie_elsewhere_and_the_parent_folder_will_do(miniature: Make, tmp_path: Path) -> None:
    mini = miniature("imagenet-lt")
    lists = tmp_path / "lists"
    lists.mkdir()
    for file in mini.source.glob("*.txt"):
        file.rename(lists / file.name)
    assert planned(mini, tmp_path, lists=lists).problems == {}
    small = miniature("tiny")
    small.source = small.source.parent
    assert planned(small, tmp_path).problems == {}


def test_other_counts_than_the_published_ones_are_problems(miniature: Make, tmp_path: Path) -> None:
    from dataclasses import replace

    mini = miniature("imagenet-lt")
    published = mini.known
    mini.known = replace(published, counts={**published.counts, "train": (6, 4, 2)})
    assert planned(mini, tmp_path).problems == {"train, class n01443537": "3 images, not 4"}
    mini.known = replace(published, counts={**published.counts, "test": (50,) * 1000})
    assert planned(mini, tmp_path).problems == {"test": "3 classes, 1000 expected"}


def test_a_store_that_was_changed_is_noticed(miniature: Make, tmp_path: Path) -> None:
    store = prepare(planned(miniature("tiny"), tmp_path))
    path, before = store.path, store.split("train").hash
    del store
    labels = np.load(path / "labels.npy")
    np.save(path / "labels.npy", labels[::-1])
    with pytest.raises(DataError, match="labels or splits are not those"):
        open_store(path)
    np.save(path / "labels.npy", labels)
    pixels = np.load(path / "images.npy", mmap_mode="r+")
    pixels[17, 0, 0, 0] ^= 1
    pixels.flush()
    assert open_store(path).split("train").hash == before  # only `verify` reads the pixels
    with pytest.raises(DataError, match=r"the images from 0 to 17 are not those .* \(1 of 1 parts differ\)"):
        verify(path)
    with (path / "images.npy").open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(DataError, match="damaged"):
        open_store(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
def test_a_worker_that_finds_the_disk_full_says_so() -> None:
    pixels = np.zeros((24, 24, 3), np.uint8)
    pool = WorkerPool(building.decode_chunk, 1)
    try:
        with pytest.raises(
            DataError, match=r"^cannot write /dev/full: No space left on device\. .* goes on from there"
        ):
            pool.run(Chunk([pixels], "/dev/full", 0, 24, "crop"))
    finally:
        pool.close()


def test_a_disk_that_is_full_in_the_end_loses_nothing(
    miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    plans = planned(miniature("tiny"), tmp_path)
    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(building, "_write", full)
        with pytest.raises(DataError, match="No space left on device"):
            prepare(plans)
    store = prepare(plans, say=said.append)
    assert said == ["going on after 100%, decoded by an earlier call"]
    assert verify(store.path) == plans.images


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"no data set that can be prepared\. Did you mean 'imagenet-lt'"):
        prepared_set("imagenet_lt")


def test_a_data_set_that_needs_no_preparing_is_not_unknown() -> None:
    with pytest.raises(ConfigError, match=r"cifar10 needs no preparing.*: procrustean train cifar10$"):
        prepared_set("cifar10")


def test_a_name_that_is_no_text_can_be_listed(miniature: Make, tmp_path: Path) -> None:
    """Names of files may be any bytes, and lists of annotations may hold half of a character."""
    plans = planned(miniature("tiny"), tmp_path)
    plans.problems.update({"train/b\udcffd.png": "missing", "ä\ud800.png": "cut"})
    with pytest.raises(DataError, match="cannot be prepared"):
        prepare(plans)
    listed = plans.target.with_name(plans.target.name + ".problems.txt")
    assert listed.read_text(encoding="utf-8") == "train/b\\udcffd.png: missing\nä\\ud800.png: cut\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not a line at all", "line 7: no `path label`: 'not a line at all'"),
        ("../secret.JPEG 0", "line 7: ../secret.JPEG lies outside"),
        ("train/n01440764/n01440764_0.JPEG 7", "line 7: label 7, but there are 4 classes"),
    ],
)
def test_a_list_that_is_none_is_refused(line: str, message: str, miniature: Make, tmp_path: Path) -> None:
    mini = miniature("imagenet-lt")
    with (mini.source / "ImageNet_LT_test.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=message):
        planned(mini, tmp_path)
