"""Every image is tested once by a network that has seen neither it nor what belongs to it."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.base import ConfigError
from procrustean.data import ImageSet, load_source
from procrustean.data.fold_splits import checked_fold, fold_of
from procrustean.records import load_result
from procrustean.records.finding_runs import runs_in
from procrustean.records.several_runs import read_folds

Call = Callable[..., Any]
TRAIN = ("--epochs", "2", "--method", "erm", "--device", "cpu", "--batch-size", "16", "--group", "/([a-z]+[0-9]+)_")


@pytest.fixture
def patients(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures without test images, two of each patient."""
    monkeypatch.chdir(tmp_path)
    for label in ("red", "green", "blue"):
        for number, path in enumerate(sorted((colours / "train" / label).glob("*.png"))):
            target = tmp_path / "patients" / label / f"{label}{number // 2}_{number}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return tmp_path / "patients"


def test_each_image_is_tested_once(patients: Path, program: Call) -> None:
    answer = program("train", patients, *TRAIN, "--folds", "3", "--run-dir", "run")
    assert answer.code == 0, answer.err
    tested: Counter[str] = Counter()
    for number in range(1, 4):
        with Path(f"run/fold-{number}/predictions.csv").open(newline="") as file:
            tested.update(row["file"] for row in csv.DictReader(file) if row["split"] == "test")
        splits = load_source(patients, group=TRAIN[-1], fold=f"{number}/3")
        assert not set(splits.train.groups) & set(splits.test.groups)
        assert splits.test.counts.min() > 0
    names = {f"{path.parent.name}/{path.name}" for path in patients.glob("*/*.png")}
    assert tested == dict.fromkeys(names, 1)
    folded = read_folds(Path("run"))
    assert folded is not None
    pooled = folded.pooled
    assert pooled is not None
    assert (pooled.metrics.images, pooled.groups, pooled.untested) == (72, 36, 0)
    low, high = pooled.interval
    value, interval = 100 * pooled.metrics.headline_value, f"{100 * low:.1f} to {100 * high:.1f}"
    assert f"{value:.1f} %, 95 % interval {interval}, by 72 images in 36 groups" in answer.out
    final = load_result("run/all").record
    assert final.data.train + final.data.held_out == 72
    assert final.image_measures is None
    assert program("predict", "run", patients / "red", "--output", "p.csv", "--device", "cpu").code == 0
    assert [run.name for run in runs_in(Path("run"))] == ["fold-1", "fold-2", "fold-3"]  # the last has no test
    before = Path("run/fold-1/result.json").stat().st_mtime_ns
    again = program("train", patients, *TRAIN, "--folds", "3", "--run-dir", "run")
    assert (again.code, again.out) == (0, answer.out), again.err
    assert Path("run/fold-1/result.json").stat().st_mtime_ns == before
    other = program("train", patients, *TRAIN, "--folds", "4", "--run-dir", "run")
    assert (other.code, "holds folds with other settings" in other.err) == (2, True)


def test_folds_are_advised_where_few_images_are_tested(patients: Path, program: Call) -> None:
    assert "train --folds 5 tests every image once" in program("inspect", patients, "--device", "cpu").out
    assert "--folds 5 tests every image once" in program("train", patients, *TRAIN, "--run-dir", "plain").out


def test_a_class_of_one_group_is_never_tested() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    groups = tuple("one" if row >= 30 else str(row // 2) for row in range(40))
    labels = (np.arange(40) >= 30).astype(np.int64)
    member = fold_of(ImageSet(pixels, labels, ("a", "b"), (), groups), 5)
    assert (member[30:] == -1).all()
    assert np.bincount(member[:30]).tolist() == [6] * 5


@pytest.mark.parametrize("fold", ["0/5", "6/5", "1/1", "2", "a/b", "1/99999"])
def test_what_is_no_fold(fold: str) -> None:
    with pytest.raises(ConfigError, match="write 2/5 for the second of five"):
        checked_fold(fold)


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--folds", "1"), "two at least"), (("--folds", "3", "--method", "auto"), "name the method")],
)
def test_what_has_no_folds_says_so(patients: Path, program: Call, options: tuple[str, ...], said: str) -> None:
    answer = program("train", patients, *options)
    assert (answer.code, said in answer.err) == (2, True), answer.err
    assert "images of your own" in program("train", "digits", "--folds", "3").err
