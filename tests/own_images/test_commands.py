"""The way of a user from a folder to predictions, and back to the run from elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coloured_pictures import write_folder

Call = Callable[..., Any]


def test_train_with_nothing_else(colours: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procrustean.runs.training_advice.SCRATCH_EPOCHS", 2)
    monkeypatch.setattr("procrustean.runs.training_advice.SCRATCH_STEPS", 1)
    shutil.copytree(colours / "train", tmp_path / "photos")
    answer = call("train", "photos")
    assert answer.code == 0, answer.err
    assert "convnet from scratch, 12 pixels, 2 epochs by balanced_softmax" in answer.err
    assert "15 % of each class are held out" in answer.err
    (folder,) = Path("runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["config"]["hold_out"] == 0.15
    assert result["calibration"]["images"] == result["data"]["held_out"] > 0
    assert json.loads((folder / "config.json").read_text())["why"]


def test_nothing_is_held_out_where_that_is_asked_for(colours: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(colours / "train", tmp_path / "photos")
    quick = ("train", "photos", "--hold-out", "0", "--epochs", "1", "--device", "cpu")
    answer = call(*quick, "--run-dir", "all")
    assert answer.code == 0, answer.err
    assert "held out" not in answer.err
    result = json.loads(Path("all/result.json").read_text())
    assert (result["config"]["hold_out"], result["data"]["held_out"]) == (0, 0)
    compared = call(*quick, "--method", "auto", "--run-dir", "compared")
    assert (compared.code, Path("compared").exists()) == (2, False)
    assert "leave it out for 15 % of each class, or name a method" in compared.err


def test_a_named_method_holds_out_as_much_as_an_advised_one(colours: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(colours / "train", tmp_path / "photos")
    quick = ("train", "photos", "--method", "erm", "--epochs", "1", "--device", "cpu")
    for options, held_out in (((), 0.15), (("--hold-out", "0", "--lr", "1e-9"), 0)):
        run = f"run-{held_out}"
        answer = call(*quick, *options, "--run-dir", run)
        assert answer.code == 0, answer.err
        assert ("15 % of each class are held out" in answer.err) == bool(held_out)
        result = json.loads(Path(run, "result.json").read_text())
        assert (result["config"]["hold_out"], bool(result["data"]["held_out"])) == (held_out, bool(held_out))
    assert "under-trained: the network gets" in answer.out
    assert "--epochs 3)" in answer.out


def test_a_named_method_does_without_where_nothing_can_be_held_out(call: Call, tmp_path: Path) -> None:
    write_folder(tmp_path / "few", {"red": 3, "green": 3}, 0)
    answer = call("train", "few", "--method", "erm", "--epochs", "30", "--device", "cpu", "--run-dir", "run")
    assert answer.code == 0, answer.err
    assert "no images can be held out (no class can give 0.15 of its images to the hold-out" in answer.err
    assert json.loads(Path("run/result.json").read_text())["config"]["hold_out"] == 0


def test_the_end_of_a_training_on_own_images(colours: Path, call: Call) -> None:
    answer = call("train", colours, "--method", "erm", "--epochs", "1", "--run-dir", "my run", "--device", "cpu")
    result = json.loads(Path("my run/result.json").read_text())
    metrics = result["selections"]["last"]["metrics"]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in answer.out.splitlines() if "|" in line]
    header = next(number for number, row in enumerate(rows) if row[0] == "class")
    heading = ["class", "training images", "test images", "recall", "precision", "AUROC", "average precision"]
    assert rows[header] == heading
    ranked = [result["image_measures"][name] for name in ("auroc", "average_precision")]
    numbers = zip(metrics["recall"], metrics["precision"], *ranked, strict=True)
    for name, count, found, row in zip(("red", "green", "blue"), (48, 16, 8), numbers, rows[header + 2 :], strict=True):
        shares = ["—" if value is None else f"{100 * value:.1f}" for value in found]
        assert row == [name, str(count), "8", *shares]
    assert "1 epoch**" in answer.out
    assert "for IMAGES:\n  procrustean report 'my run'\n  procrustean predict 'my run' IMAGES" in answer.err
    assert "procrustean thresholds 'my run' --precision 0.95\n  procrustean export 'my run'\n" in answer.err
    known = call("train", "digits", "--imbalance", "step", "--rho", "20", "--method", "erm", "--epochs", "1")
    assert "precision" not in known.out
    assert "next" not in known.err


def test_classes_of_one_size_are_neither_major_nor_minor(tmp_path: Path, call: Call) -> None:
    write_folder(tmp_path / "even", {"red": 8, "green": 8, "blue": 8}, 0)
    assert call("train", "even", "--method", "erm", "--epochs", "1", "--run-dir", "run", "--device", "cpu").code == 0
    shown = call("compare", "run").out
    assert "macro-F1" in shown
    assert "major" not in shown
    assert "group columns" not in shown
    assert "major_mean" in call("compare", "run", "--format", "csv").out


def test_a_run_finds_its_images_from_another_folder(
    colours: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(colours, tmp_path / "photos")
    assert call("train", "photos", "--method", "erm", "--epochs", "1", "--run-dir", "run").code == 0
    expected = call("evaluate", "run", "--json").out
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert call("evaluate", "../run", "--json").out == expected
    assert call("evaluate", "../run", "--tau", "1").code == 0
    shutil.move(tmp_path / "photos", tmp_path / "moved")
    answer = call("evaluate", "../run")
    assert answer.code == 2
    assert f"are no longer at {tmp_path / 'photos'}" in answer.err
    assert call("evaluate", "../run", "--source", "../moved", "--json").out == expected
    shutil.rmtree(tmp_path / "moved" / "test" / "red")
    assert call("evaluate", "../run", "--source", "../moved").code == 2


def test_a_shared_size_is_kept_and_settings_are_printed(colours: Path, call: Call) -> None:
    answer = call("train", colours, "--method", "erm", "--dry-run")
    assert answer.code == 0, answer.err
    assert "image_size: 12" in answer.out
    assert "net: convnet" in answer.out
    assert not Path("runs").exists()


def test_doctor_answers(call: Call) -> None:
    answer = call("doctor")
    assert answer.code in (0, 1)
    for topic in ("PyTorch version", "Training", "Threads", "Disk", "Data", "onnxruntime"):
        assert f"\n{topic}: " in f"\n{answer.out}"
