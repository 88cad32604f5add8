"""procrustean report, and logging while training."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.cli.results import show_own
from procrustean.records import load_result

Call = Callable[..., Any]
TRAIN = ("--net", "small", "--epochs", "2", "--batch-size", "16", "--device", "cpu", "--precision", "fp32", "--quiet")


@pytest.fixture
def run(npz: Path, call: Call) -> str:
    assert call("train", npz, *TRAIN, "--method", "erm", "--run-dir", "runs/a").code == 0
    return "runs/a"


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_report_is_written(run: str, call: Call) -> None:
    answer = call("report", run)
    assert answer.code == 0
    assert answer.out.startswith("report.html (0.")
    (method,) = data_of(Path("report.html"))["settings"][0]["methods"]
    assert method["label"] == "ERM"
    assert method["examples"]["reason"] == ""
    assert any(method["examples"]["pictures"].values())
    assert "looking for examples" in answer.err
    again = call("report", f"{run}/result.json", "--output", "again.html", "--examples", "0", "--quiet")
    assert (again.code, again.err) == (0, "")
    assert data_of(Path("again.html"))["settings"][0]["methods"][0]["examples"] is None


def test_the_trials_before_a_run_are_shown(run: str, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("report", run, "--examples", "0", "--quiet").code == 0
    assert data_of(Path("report.html"))["settings"][0]["tables"]["trials"] is None
    began = json.loads(Path(run, "config.json").read_text())
    trial = {"name": "head on features", "balanced_accuracy": 0.625, "log_loss": 0.75, "held_out": 40, "seconds": 9.4}
    began["trials"] = [trial, {**trial, "name": "from scratch", "balanced_accuracy": 0.5}]
    Path(run, "config.json").write_text(json.dumps(began))
    assert call("report", run, "--examples", "0", "--quiet").code == 0
    table = data_of(Path("report.html"))["settings"][0]["tables"]["trials"]
    rows = [[cell["text"] for cell in row] for row in table["rows"]]
    assert rows == [["head on features", "62.5", "0.750", "40", "9"], ["from scratch", "50.0", "0.750", "40", "9"]]
    show_own(load_result(Path(run)).record, Path(run), lambda text: None)
    shown = capsys.readouterr().out
    ways, classes = (shown.index(text) for text in ("| head on features", "| class"))
    assert ways < classes


def test_a_folder_of_runs_and_unfinished_ones(run: str, call: Call) -> None:
    Path("runs/b").mkdir()
    Path("runs/b/config.json").write_text("{}")
    answer = call("report", "runs")
    assert answer.code == 0
    assert "left out runs/b: not finished" in answer.err
    assert data_of(Path("report.html"))["runs"] == 1


def test_a_run_and_the_stored_copy_of_its_result_count_once(run: str, call: Call) -> None:
    record = json.loads(Path(run, "result.json").read_text())
    Path("runs/Kept").mkdir()  # before the run itself in the order of names
    copy = Path("runs/Kept/a.json")
    copy.write_text(json.dumps({**record, "command": "procrustean paper reproduce mine"}))
    said = f"passed over 1 copy of results that are here twice and say the same, for example {copy.resolve()}"
    compared = call("compare", "runs")
    assert (compared.code, compared.out.count("| ERM")) == (0, 1)
    assert said in compared.err
    reported = call("report", "runs")
    assert said in reported.err
    assert data_of(Path("report.html"))["runs"] == 1
    (method,) = data_of(Path("report.html"))["settings"][0]["methods"]
    assert any(method["examples"]["pictures"].values())  # the run directory, which has the network, was taken
    record["curves"]["loss"][0] += 1
    copy.write_text(json.dumps(record))
    for command in ("compare", "report"):
        refused = call(command, "runs")
        assert (refused.code, refused.out) == (2, "")
        assert "are the same run" in refused.err


def test_result_files_alone_are_enough(run: str, call: Call) -> None:
    content = Path(run, "result.json").read_text()
    Path("kept.json").write_text(content)
    assert call("report", "kept.json").code == 0
    assert "not beside the result" in data_of(Path("report.html"))["settings"][0]["methods"][0]["examples"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no run received"),
        (("nowhere",), "There is no run at nowhere"),
        (("runs/a", "--examples", "-1"), "examples = -1 received"),
        (("runs/a", "--output", "stripes.npz"), "exists and is not a report"),
    ],
)
def test_wrong_input_is_named(run: str, call: Call, arguments: tuple[str, ...], message: str) -> None:
    answer = call("report", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


def test_training_can_be_logged(npz: Path, call: Call) -> None:
    answer = call("train", npz, *TRAIN, "--method", "erm", "--run-dir", "logged", "--log", "tensorboard")
    assert answer.code == 0
    assert list(Path("logged/tensorboard").glob("events.*"))
    assert "log" not in json.loads(Path("logged/config.json").read_text())["config"]


def test_a_missing_logging_package_stops_before_anything_is_written(
    npz: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    answer = call("train", npz, *TRAIN, "--run-dir", "logged", "--log", "wandb")
    assert answer.code == 2
    assert "pip install -c constraints.txt -e '.[wandb]'" in answer.err
    assert not Path("logged").exists()
