from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.inspecting import timing
from procrustean.inspecting.inspect import inspect_source, trained_on
from procrustean.inspecting.survey import survey

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS", 0.05)


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
    text = inspect_source(str(messy), device="cpu")
    for part in (
        "messy: 123 images of 3 classes in train, val, test",
        "48 of the largest class and 8 of the smallest, ratio 6: long-tailed",
        "always answering 'red' would be right for 36.0 % of the images, with a balanced accuracy of 33.3 %",
        "12 x 12 to 30 x 20 pixels, shorter side usually 12; colour modes: RGB 122, L 1",
        "broken: 1 files cannot be used",
        "train/red/cut.png: damaged",
        "across splits: 1 groups",
        "test/red/copy.png",
        "contradicting labels: 1 groups",
        "advised method: ldam --drw, best of 9 methods",
        "advised settings: small at 12 x 12 pixels",
        "expected time: about",
        f"procrustean train {messy} --method auto",
    ):
        assert part in text, part


def test_without_splits_it_says_what_would_be_set_aside(colours: Path, tmp_path: Path) -> None:
    root = shutil.copytree(colours / "train", tmp_path / "plain")
    found = survey(str(root))
    trained, notes = trained_on(found)
    assert notes[0] == "no test images: 13 would be set aside, 20 % of each class"
    from procrustean import fit

    run = fit(str(root), epochs=1, device="cpu", run_dir=str(tmp_path / "run"))
    assert sorted(run.result["data"]["counts"]) == sorted(trained)


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
    assert "advised method: erm" in answer.out


def test_wrong_input(call: Call, tmp_path: Path) -> None:
    assert "unknown source 'nowhere'" in call("inspect", "nowhere").err
    (tmp_path / "empty").mkdir()
    answer = call("inspect", "empty")
    assert answer.code == 2
    assert "at least two classes" in answer.err


def test_speed_is_measured() -> None:
    assert timing.measured_speed("small", 3, 8, 4, "cpu") > 0
