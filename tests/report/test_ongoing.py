from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.balance.metrics import metrics_from_confusion
from procrustean.base import RunError
from procrustean.data import load_source
from procrustean.data.sources import place_of
from procrustean.engine.training import _summary
from procrustean.records import group_results
from procrustean.records.ongoing_record import load_ongoing
from procrustean.report import comparison

COUNTS = [200, 50, 5]


def measured(correct: list[int]) -> dict[str, Any]:
    confusion = [[10 * (row == column) for column in range(3)] for row in range(3)]
    for index, number in enumerate(correct):
        confusion[index][index] = number
        confusion[index][(index + 1) % 3] = 10 - number
    return metrics_from_confusion(confusion, COUNTS)


def begin(folder: Path, epochs: list[dict[str, Any]], **config: Any) -> Path:
    """A run directory as it is while the run goes on."""
    folder.mkdir()
    settings = {"source": "photos/cats.npz", "imbalance": "natural", "rho": None, "method": "mfw", "seed": 3, **config}
    identity = {
        "classes": ["a", "b", "c"],
        "counts": COUNTS,
        "split_hash": "ab" * 32,
        "method": "MFW",
        "stages": ["train"],
        "recipe": {"net": "small", "epochs": 10},
        "precision": "fp32",
    }
    (folder / "config.json").write_text(json.dumps({"format": 1, "config": settings, "identity": identity}))
    lines = [json.dumps({"stage": 0, "epoch": number, "loss": 1.0, "lr": 0.1, **e}) for number, e in enumerate(epochs)]
    (folder / "epochs.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def epoch(correct: list[int], **more: Any) -> dict[str, Any]:
    return {"test": _summary(measured(correct)), **more}


@pytest.mark.parametrize("kind", ["folder", "list.csv", "arrays.npz"])
def test_the_data_are_called_as_in_the_result(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    place = tmp_path / ("cats" if kind == "folder" else "")
    images = random.integers(0, 256, (12, 8, 8, 3), np.uint8)
    for number, image in enumerate(images):
        path = place / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    rows = [f"{'ab'[number % 2]}/{number}.png,{number % 2}" for number in range(12)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    np.savez(tmp_path / "arrays.npz", train_images=images, train_labels=np.arange(12) % 2)
    monkeypatch.chdir(place)
    source = "." if kind == "folder" else kind
    folder = begin(tmp_path / "run", [epoch([9, 5, 1])], source=source)
    begun = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**begun, "source_path": place_of(source)}))
    monkeypatch.chdir("/")
    run = load_ongoing(folder).result
    assert run is not None
    assert run.data["source"] == load_source(str(place / source)).name


def test_a_run_that_goes_on_reads_like_a_result(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", [epoch([9, 5, 1]), {}, epoch([10, 8, 3])])
    run = load_ongoing(folder)
    assert (run.epochs_done, run.epochs, run.label) == (3, 10, "MFW (seed 3, unfinished)")
    assert run.result is not None
    assert run.result.unfinished
    record = run.result.record
    assert record["data"]["source"] == "cats"
    assert record["data"]["rho"] == 40
    assert record["curves"]["evaluated"] == [0, 2]
    assert record["curves"]["loss"] == [1.0, 1.0, 1.0]
    assert record["curves"]["train_recall"] == [None, None]
    assert record["curves"]["held_out_balanced_accuracy"] is None
    last = record["selections"]["last"]
    assert last["epoch"] == 2
    assert last["metrics"]["groups"] == measured([10, 8, 3])["groups"]
    assert comparison(group_results([run.result])).rows[0][0].text == run.label


def test_probes_so_far_are_read(tmp_path: Path) -> None:
    probe = {"classification_ratio": [1.5, 1.0, 0.5], "gradient_norm_mixed": None}
    run = load_ongoing(begin(tmp_path / "run", [epoch([9, 5, 1], probe=probe), epoch([9, 5, 1])])).result
    assert run is not None
    assert run.record["probes"] == {
        "epochs": [0],
        "classification_ratio": [[1.5, 1.0, 0.5]],
        "gradient_norm_mixed": [None],
    }


def test_selections_follow_the_rules_of_a_finished_run(tmp_path: Path) -> None:
    held_out = [{"balanced_accuracy": value} for value in (0.5, 0.7, 0.7, 0.6)]
    correct = [[10, 9, 9], [9, 9, 9], [10, 9, 9], [8, 8, 8]]
    folder = begin(tmp_path / "run", [epoch(c, held_out=h) for c, h in zip(correct, held_out, strict=True)])
    run = load_ongoing(folder).result
    assert run is not None
    chosen = {name: selection["epoch"] for name, selection in run.record["selections"].items()}
    assert chosen == {"last": 3, "held_out": 2, "oracle": 0}  # ties: held-out to the later, oracle to the earlier


def test_epochs_of_earlier_stages_are_not_selected(tmp_path: Path) -> None:
    run = load_ongoing(begin(tmp_path / "run", [epoch([10, 10, 10]), epoch([1, 1, 1], stage=1)])).result
    assert run is not None
    assert run.record["selections"]["oracle"]["epoch"] == 1


def test_a_line_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", [epoch([9, 5, 1])])
    with open(folder / "epochs.jsonl", "a") as file:
        file.write('{"stage": 0, "epo')
    assert load_ongoing(folder).epochs_done == 1


@pytest.mark.parametrize("epochs", [[], [{}, {}]])
def test_before_the_first_test_there_is_no_result(tmp_path: Path, epochs: list[dict[str, Any]]) -> None:
    run = load_ongoing(begin(tmp_path / "run", epochs))
    assert run.result is None
    assert run.epochs_done == len(epochs)
    (tmp_path / "run" / "epochs.jsonl").unlink()
    assert load_ongoing(tmp_path / "run").epochs_done == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not a run directory: it has no config.json"),
        ("{", "damaged"),
        ("[]", "not the configuration of a run"),
        ('{"format": 1, "config": {}}', "lacks format, config or identity"),
        ('{"format": 9, "config": {}, "identity": {}}', "format 9"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match=message):
        load_ongoing(tmp_path)


def test_damaged_epochs_are_named(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", [])
    (folder / "epochs.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(RunError, match=r"epochs.jsonl is damaged"):
        load_ongoing(folder)
