from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
Files = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def run(call: Call, npz: Path) -> Path:
    small = ("--net", "small", "--epochs", 2, "--device", "cpu", "--run-dir", "run")
    assert call("train", npz, *small, "--method", "mfw", "--average", "swa").code == 0
    return Path("run")


def test_a_short_table_says_what_was_tested(run: Path, call: Call, files_of: Files) -> None:
    before = files_of(run)
    answer = call("evaluate", run)
    assert (answer.code, answer.err) == (0, "")
    title = "Test results of run in %, weights: {}, statistics of batch normalisation: {}"
    assert answer.out.startswith(f"**{title.format('last', 'kept')}**\n")
    metrics = json.loads((run / "result.json").read_text())["selections"]["last"]["metrics"]
    groups = [metrics["groups"][group] for group in ("major", "minor")]
    numbers = [metrics["accuracy"], metrics["balanced_accuracy"], *groups, metrics["macro_f1"]]
    heading, _, row = (line for line in answer.out.splitlines() if line.startswith("|"))
    assert " ".join(heading.replace("|", " ").split()) == "accuracy balanced accuracy major minor macro-F1"
    assert row.replace("|", " ").split() == [f"{100 * number:.1f}" for number in numbers]
    assert "40 test images" in answer.out
    other = call("evaluate", run, "--weights", "swa", "--statistics", "mixed")
    assert other.out.startswith(f"**{title.format('swa', 'mixed')}**\n")
    assert files_of(run) == before


def test_json_holds_all_metrics_and_what_was_tested(run: Path, call: Call) -> None:
    printed = call("evaluate", run, "--json").out
    recorded = json.loads((run / "result.json").read_text())["selections"]["last"]["metrics"]
    assert json.loads(printed) == {"weights": "last", "statistics": "kept", **recorded}
    found = json.loads(call("evaluate", run, "--weights", "swa", "--statistics", "mixed", "--json").out)
    assert (found["weights"], found["statistics"]) == ("swa", "mixed")
    summary = call("evaluate", run).out
    answer = call("evaluate", run, "--output", "metrics.json")
    assert (answer.code, answer.out) == (0, summary + "\nAll metrics: metrics.json\n")
    assert Path("metrics.json").read_text() == printed
    assert call("evaluate", run, "--weights", "swa", "--output", "metrics.json").code == 0  # older metrics are replaced
    assert json.loads(Path("metrics.json").read_text())["weights"] == "swa"


def test_nothing_is_written_into_the_run(run: Path, call: Call, files_of: Files) -> None:
    before = files_of(run)
    answer = call("evaluate", run, "--output", "run/result.json")
    assert (answer.code, answer.out) == (2, "")
    assert "run/result.json is inside the run run, which stays as it is" in answer.err
    Path("model.onnx").write_bytes(b"precious")
    answer = call("evaluate", run, "--output", "model.onnx")
    assert (
        "model.onnx exists and is not a file of metrics (.json), so it is not replaced; choose another --output"
        in answer.err
    )
    assert Path("model.onnx").read_bytes() == b"precious"
    assert files_of(run) == before
