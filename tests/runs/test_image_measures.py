"""What a run on own images tells of its headline: an interval, how few images it rests on, why it may be too good."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.records import load_result

Call = Callable[..., Any]
TRAIN = ("--epochs", "2", "--method", "erm", "--device", "cpu", "--batch-size", "16")


@pytest.fixture
def patients(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures by patients; every second one of a patient is in the test folder."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "patients"
    for label in ("red", "green", "blue"):
        for number, path in enumerate(sorted((colours / "train" / label).glob("*.png"))):
            target = root / ("test" if number % 4 == 3 else "train") / label / f"p{number // 2}_{number}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return root


def test_the_headline_has_an_interval_and_says_why_it_may_be_too_good(patients: Path, program: Call) -> None:
    answer = program("train", patients, *TRAIN, "--hold-out", "0", "--group", "/(p[0-9]+)_", "--run-dir", "run")
    assert answer.code == 0, answer.err
    record = load_result("run").record
    measures, metrics = record.image_measures, record.selections.last.metrics
    assert measures is not None
    low, high = measures.interval
    assert low <= metrics.headline_value <= high
    assert high - low > 0.02
    assert (measures.fewest_tested, measures.fewest_images) == ("blue", 2)
    assert measures.groups == 12
    (caution,) = measures.cautions
    assert caution.startswith("18 of 18 test images belong to groups that are trained on (p1, p11, p13, ...): ")
    told = f"95 % interval {100 * low:.1f} to {100 * high:.1f}, by 18 test images in 12 groups. Fewest are of blue: 2"
    assert told in answer.out
    assert f"caution: {caution}" in answer.out
    shown = program("compare", "run", "--intervals", "--format", "csv").out
    assert f",{100 * low:.1f},{100 * high:.1f},18 in 12 groups,blue: 2" in shown
    program("report", "run", "--output", "page.html")
    assert "belong to groups that are trained on" in Path("page.html").read_text()


def test_every_answer_is_in_a_file_and_the_worst_are_shown(patients: Path, program: Call) -> None:
    wrong = patients / "test" / "blue" / "wrong_1.png"
    shutil.copy(patients / "train" / "red" / "p0_0.png", wrong)
    (patients / "test" / "blue" / "wrong_1.png").touch()
    train = (*TRAIN[:1], "12", *TRAIN[2:], "--hold-out", "0.2", "--group", "/([a-z]+[0-9]*)_", "--run-dir", "run")
    assert program("train", patients, *train).code == 0
    record = load_result("run").record
    with Path("run/predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    of = {split: [row for row in rows if row["split"] == split] for split in ("test", "held_out")}
    assert [len(of["test"]), len(of["held_out"])] == [record.data.test, record.data.held_out]
    right = np.array([row["label"] == row["answer"] for row in of["test"]])
    labels = np.array([record.data.classes.index(row["label"]) for row in of["test"]])
    metrics, measures = record.selections.last.metrics, record.image_measures
    assert np.mean([right[labels == label].mean() for label in range(3)]) == pytest.approx(metrics.balanced_accuracy)
    assert measures is not None
    for row in rows:
        if row["label"] == row["answer"]:
            assert math.exp(-float(row["loss"])) == pytest.approx(float(row["probability"]), abs=2e-4)
    assert {row["group"] for row in of["test"]} & {"p1", "wrong"} == {"p1", "wrong"}
    assert measures.auroc is not None
    assert all(value is not None and 0.5 < value <= 1 for value in measures.auroc)
    (mistake,) = [row for row in of["test"] if row["file"] == "test/blue/wrong_1.png"]
    assert mistake["answer"] == "red"
    shown = program("report", "run", "--output", "page.html", "--data-dir", "nowhere")
    assert shown.code == 0, shown.err
    page = json.loads(re.search(r'type="application/json"[^>]*>(.*?)</script>', Path("page.html").read_text())[1])
    (method,) = page["settings"][0]["methods"]
    first = method["mistakes"][0]
    assert (first["file"], first["label"], first["answer"]) == ("test/blue/wrong_1.png", "blue", "red")
    assert first["picture"].startswith("data:image/png;base64,")
    assert [column["heading"] for column in page["settings"][0]["tables"]["classes"]["last"]["columns"]][-2:] == [
        "AUROC",
        "average precision",
    ]


def test_known_data_sets_have_none(tmp_path: Path, program: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program("train", "digits", "--epochs", "1", "--method", "erm", "--device", "cpu", "--run-dir", "run")
    assert load_result("run").record.image_measures is None
    answer = program("compare", "run", "--intervals")
    assert answer.code == 2
    assert "none of these runs has an interval" in answer.err
