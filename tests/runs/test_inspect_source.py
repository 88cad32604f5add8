from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from coloured_pictures import write_folder
from procrustean import fit
from procrustean.base.progress import PlainReporter
from procrustean.data import ImageSet, Splits, duplicates, image_files
from procrustean.data.survey import _of_arrays, survey
from procrustean.records import RunSpec
from procrustean.runs import inspect_source as inspecting
from procrustean.runs.advice import planned
from procrustean.runs.cost import Machine
from procrustean.runs.inspect_source import expectation, inspect_source
from procrustean.runs.method_advice import CORRECTION
from procrustean.runs.preparing import prepare

Call = Callable[..., Any]
CPU = Machine("cpu", 2, 120.0)


@pytest.fixture
def messy(colours: Path, tmp_path: Path) -> Path:
    """The colours with what folders of real images have."""
    root = shutil.copytree(colours, tmp_path / "messy")
    shutil.copy(root / "train" / "red" / "000.png", root / "test" / "red" / "copy.png")
    shutil.copy(root / "train" / "red" / "001.png", root / "train" / "green" / "wrong.png")
    whole = (root / "train" / "red" / "002.png").read_bytes()
    (root / "train" / "red" / "cut.png").write_bytes(whole[: len(whole) // 2])
    Image.fromarray(np.full((20, 30), 77, np.uint8)).save(root / "train" / "green" / "grey.png")
    return root


def test_each_file_is_opened_once(messy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[Path] = Counter()
    before = image_files._opened

    def counted(content: Path) -> Image.Image:
        opened[content] += 1
        return before(content)

    monkeypatch.setattr(image_files, "_opened", counted)
    inspect_source(str(messy), device="cpu", on_bad_image="skip")
    assert len(opened) == 124
    assert set(opened.values()) == {1}


def test_counts_and_duplicates_and_broken_files(messy: Path) -> None:
    found = survey(str(messy))
    assert found.classes == ("blue", "green", "red")
    assert found.counts == {"train": [8, 18, 48], "val": [8, 8, 8], "test": [8, 8, 9]}
    assert list(found.bad) == ["train/red/cut.png"]
    assert found.modes == {"RGB": 122, "L": 1}
    assert found.sizes == {(12, 12): 122, (30, 20): 1}
    across = [twins for twins in found.twins if twins.across]
    assert [sorted(twins.names) for twins in across] == [["test/red/copy.png", "train/red/000.png"]]
    contradict = [twins for twins in found.twins if twins.contradict]
    assert [sorted(twins.names) for twins in contradict] == [["train/green/wrong.png", "train/red/001.png"]]


def test_the_text_says_it_all(messy: Path) -> None:
    text = inspect_source(str(messy), device="cpu").text
    for part in (
        "messy: 123 images of 3 classes in train, val, test",
        "48 of the largest class and 8 of the smallest, ratio 6: long-tailed",
        "12 to 30 pixels wide and 12 to 20 high, shorter side usually 12; colour modes: RGB 122, L 1",
        "cannot be used: 1 file; training refuses them. Remove or replace them, or leave them out with "
        "--on-bad-image skip:",
        "train/red/cut.png: damaged",
        "across splits: 1 group, ",
        "test/red/copy.png",
        "contradicting labels: 1 group of",
        "convnet from scratch, 12 pixels, ",
        "epochs by balanced_softmax, about ",
        f"start with: procrustean train {messy} --on-bad-image skip",
    ):
        assert part in text, part
    assert "cannot be used: 1 file; left out:" in inspect_source(str(messy), device="cpu", on_bad_image="skip").text


def test_all_that_cannot_be_used_is_named(messy: Path) -> None:
    (messy / "README.md").write_text("about these images")
    for number in range(210):
        (messy / "train" / "red" / f"lost{number:03}.png").touch()
    text = inspect_source(str(messy), device="cpu").text
    assert "cannot be used: 211 files; training refuses them. Remove or replace them, or" in text
    assert text.count(": empty file\n") == 199
    assert "\n  and 11 more\n" in text
    assert "no images, by their names neither: 1 file; training refuses them. Move" in text
    assert "\n  README.md: not inside a class folder\n" in text


def test_none_that_can_be_used_are_named_too(colours: Path, tmp_path: Path, call: Call) -> None:
    root = shutil.copytree(colours / "test", tmp_path / "lost")
    for path in root.rglob("*.png"):
        path.write_bytes(b"")
    answer = call("inspect", "lost")
    assert answer.code == 2
    assert answer.err.count(": empty file\n") == 24


def test_without_splits_it_says_what_would_be_set_aside(colours: Path, tmp_path: Path) -> None:
    root = shutil.copytree(colours / "train", tmp_path / "plain")
    told: list[str] = []
    reporter = PlainReporter()
    reporter.say = told.append  # type: ignore[method-assign]
    expected = expectation(survey(str(root)), RunSpec(str(root), method="advised"), CPU)
    assert "no test images: 13 would be set aside, 20 % of each class" in expected.notes
    run = fit(str(root), epochs=1, device="cpu", run_dir=str(tmp_path / "run"), reporter=reporter)
    assert sorted(run.record.data.counts) == sorted(expected.trained)
    number = sum(expected.trained)
    assert f"{number} images would be trained on, 30 to 6 per class" in expected.notes
    assert any(f"{number} training images (30 to 6 per class)" in text for text in told)


def test_inspect_and_train_and_auto_plan_the_same() -> None:
    """Counts around the borders of method, batch and epochs, with test images and without, with validation or not."""
    random = np.random.default_rng(0)
    triples = [
        tuple(int(n) for n in random.integers(4, 60, 3) * (1, 4, scale)) for scale in (1, 3, 9) for _ in range(8)
    ]
    for triple, val in product([(35, 12, 12), (330, 20, 9), (2000, 100, 30), *triples], (False, True)):
        splits = arrays(triple, val)
        machine = replace(CPU, cores=1 + triple[0] % 3)
        config = RunSpec("mine", method="advised")
        expected = expectation(_of_arrays(splits), config, machine)
        for asked in (config, replace(config, method="auto")):
            plan = planned(asked, splits=splits, machine=machine).config
            settings = expected.settings
            assert (plan.net, plan.epochs, plan.batch_size) == (settings.net, settings.epochs, settings.batch_size)
            if plan.method != "auto":
                assert (plan.method, plan.drw) == (CORRECTION.method, CORRECTION.drw)
            counts = prepare(replace(plan, method="erm", drw=False, epochs=1, device="cpu"), splits=splits).data.counts
            assert sorted(counts.tolist()) == sorted(expected.trained)


def arrays(counts: tuple[int, ...], val: bool) -> Splits:
    random = np.random.default_rng(1)

    def made(sizes: tuple[int, ...]) -> ImageSet:
        labels = np.repeat(np.arange(len(sizes)), sizes)
        return ImageSet(random.integers(0, 256, (len(labels), 8, 8, 3), np.uint8), labels, ("a", "b", "c"))

    return Splits("mine", made(counts), made((4, 4, 4)), made((4, 4, 4)) if val else None)


@pytest.mark.parametrize("pictures", [7, 1])
def test_images_that_cannot_be_split_are_not_advised_on(pictures: int, tmp_path: Path, call: Call) -> None:
    """Copies of one picture per class: training has no test set to set aside, and inspect says it with its words."""
    for name, shade in (("day", 200), ("night", 30)):
        (tmp_path / "same" / name).mkdir(parents=True)
        for number in range(pictures):
            Image.new("RGB", (16, 16), (shade, shade, number)).save(tmp_path / "same" / name / f"{number}.png")
    refused = call("train", "same", "--epochs", "1").err.strip().removeprefix("procrustean: ")
    assert "there is no test set" in refused
    answer = call("inspect", "same")
    assert answer.code == 2
    assert refused.splitlines()[-1] in answer.out
    assert "start with" not in answer.out


def test_an_empty_class_folder_hides_nothing(messy: Path) -> None:
    (messy / "train" / "owl").mkdir()
    shutil.copytree(messy / "test" / "red", messy / "test" / "fox")
    text = inspect_source(str(messy), device="cpu").text
    for part in (
        "cannot be used: 1 file and 1 folder; ",
        "train/owl: class folder without images",
        "train/red/cut.png: damaged",
        "no training images of fox",
        "48 of the largest class and 8 of the smallest, ratio 6",
        "start with",
    ):
        assert part in text, part
    row = next(line for line in text.splitlines() if line.startswith("fox"))
    assert "█" not in row


def test_a_class_without_training_images_is_refused_as_training_refuses_it(colours: Path, call: Call) -> None:
    root = Path(shutil.copytree(colours, "colours"))
    shutil.move(root / "train" / "blue", "blue")
    answer = call("inspect", root, "--device", "cpu")
    assert answer.code == 2
    refusal = "class 'blue' is in the test split but not in the train split; add training images or remove it"
    assert f"training refuses these images as they are, so there is nothing to advise yet:\n  {root}: {refusal}" in (
        answer.out
    )
    assert "start with" not in answer.out
    assert "no training images of blue: add some, remove the class, or leave it out with --on-bad-image" in answer.out
    assert refusal in call("train", root, "--epochs", "1", "--device", "cpu").err
    without = call("inspect", root, "--on-bad-image", "skip", "--device", "cpu").out
    assert "no training images of blue: left out" in without
    start = next(line for line in without.splitlines() if line.startswith("start with: procrustean "))
    command = shlex.split(start.removeprefix("start with: procrustean "))
    assert call(*command, "--epochs", "1", "--device", "cpu", "--run-dir", "run").code == 0


def test_one_class_alone(tmp_path: Path) -> None:
    root = tmp_path / "one"
    write_folder(root, {"red": 6}, 0)
    text = inspect_source(str(root), device="cpu").text
    assert "6 images of 1 class in train" in text
    assert "at least two classes with training images are needed, found 1" in text


def test_validation_images_alone_are_no_reason_to_fail(tmp_path: Path) -> None:
    write_folder(tmp_path / "val", {"red": 4, "blue": 4}, 0)
    (tmp_path / "train" / "red").mkdir(parents=True)
    text = inspect_source(str(tmp_path), device="cpu").text
    assert "8 images of 2 classes in val" in text
    assert "training refuses these images as they are" in text


def test_wide_letters_stand_in_columns_and_commands_can_be_pasted(tmp_path: Path) -> None:
    root = tmp_path / "my photos"
    write_folder(root, {"red": 12, "green": 8, "blue": 8}, 0)
    (root / "blue").rename(root / "青い鳥")
    text = inspect_source(str(root), device="cpu").text
    rows = [line for line in text.splitlines() if "█" in line]
    assert len({cell_len(row[: row.index("█")]) for row in rows}) == 1
    assert shlex.split(text.splitlines()[-1].removeprefix("start with: ")) == ["procrustean", "train", str(root)]


def test_every_colour_mode_is_counted(colours: Path, tmp_path: Path) -> None:
    root = shutil.copytree(colours, tmp_path / "modes")
    for mode in ("L", "LA", "RGBA", "1", "P"):
        Image.new(mode, (12, 12)).save(root / "train" / "red" / f"{mode}.png")
    text = inspect_source(str(root), device="cpu").text
    assert text.split("colour modes: RGB ")[1].split("\n")[0].endswith(", 1 1, L 1, LA 1, P 1, RGBA 1")


def test_twelve_bits_in_files_of_sixteen(tmp_path: Path, call: Call) -> None:
    """They become nearly black, in which different images look the same."""
    random = np.random.default_rng(0)
    for split, name in product(("train", "test"), ("a", "b")):
        (tmp_path / "x-ray" / split / name).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(0, 4096, (16, 16), np.uint16)
            Image.fromarray(pixels).save(tmp_path / "x-ray" / split / name / f"{number}.png")
    text = inspect_source(str(tmp_path / "x-ray"), device="cpu").text
    assert re.search(r"few bits: 24 images of 16 bits use 12 of them at most: no value is above 40\d\d of 65535", text)
    assert "near-duplicates: cannot be told, since the images are nearly black" in text
    assert "across splits" not in text
    assert "contradicting labels" not in text
    told = call("train", "x-ray", "--epochs", "1", "--method", "erm", "--device", "cpu").err
    assert "\nwarning: 24 images of 16 bits use 12 of them at most" in told
    assert "whether some are on both sides of a split cannot be told" in told
    assert "have a near-duplicate among the training images" not in told


def test_npz_and_known_data_sets(tmp_path: Path, call: Call) -> None:
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "a.npz",
        train_images=random.integers(0, 256, (30, 8, 8), np.uint8),
        train_labels=np.repeat([0, 1], [25, 5]),
    )
    found = survey(str(tmp_path / "a.npz"))
    assert found.counts["train"] == [25, 5]  # the test set that loading sets aside is not the source's
    assert found.modes == {"L": 30}
    answer = call("inspect", "digits")
    assert answer.code == 0
    assert "ratio 1: mild, the classes are near equal" in answer.out


def test_that_nearly_equal_images_are_not_looked_for_among_many_is_said(
    messy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (duplicates, inspecting):
        monkeypatch.setattr(place, "MOST_COMPARED", 5)
    told = "\n".join(inspecting.describe_problems(survey(str(messy))))
    assert "equal images (nearly equal ones are looked for among 5 at most): " in told
    assert "near-duplicates" not in told


def test_images_of_an_npz_file_are_named_by_their_places_in_it(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (40, 8, 8), np.uint8), np.arange(40) % 2
    images[33], images[38] = images[30], images[36]
    val = random.integers(0, 256, (4, 8, 8), np.uint8)
    val[2] = images[10]
    np.savez(tmp_path / "a.npz", train_images=images, train_labels=labels, val_images=val, val_labels=[0, 1, 0, 1])
    found = survey(str(tmp_path / "a.npz"))
    named = {frozenset(twins.names): twins for twins in found.twins}
    assert set(named) == {
        frozenset({"train image 30", "train image 33"}),
        frozenset({"train image 36", "train image 38"}),
        frozenset({"train image 10", "val image 2"}),
    }
    assert [twins for twins in found.twins if twins.across] == [named[frozenset({"train image 10", "val image 2"})]]


def test_of_a_known_data_set_it_tells_what_train_does() -> None:
    text = inspect_source("digits", device="cpu").text
    assert "advised" not in text
    assert "held out" not in text
    assert "a known data set: train goes by its recipe" in text
    assert "\nstart with: procrustean train digits\n" in text
    assert "its classes are near equal" in text.splitlines()[-1]


def test_wrong_input(call: Call, tmp_path: Path) -> None:
    assert "unknown source 'nowhere'" in call("inspect", "nowhere").err
    (tmp_path / "empty").mkdir()
    answer = call("inspect", "empty")
    assert answer.code == 2
    assert "at least two classes" in answer.err
