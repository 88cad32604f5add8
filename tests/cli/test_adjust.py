from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.balance.metrics import metrics_from_totals
from procrustean.cli.evaluate import adjustment_table
from procrustean.deploy.adjusted_scores import Adjusted

Call = Callable[..., Any]
Files = Callable[[Path], dict[str, bytes]]
SMALL = ("--net", "small", "--epochs", 2, "--device", "cpu", "--hold-out", 0, "--run-dir", "run")


@pytest.fixture
def run(call: Call, npz: Path) -> Path:
    assert call("train", npz, *SMALL, "--method", "mfw", "--hold-out", 2).code == 0
    return Path("run")


def test_a_summary_shows_the_metrics_before_and_after_and_the_run_stays(run: Path, call: Call, files_of: Files) -> None:
    before = files_of(run)
    answer = call("evaluate", run, "--adjust", "--tau", "1.5")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("**Test results of run in %, last epoch, adjusted with tau = 1.5**")
    assert len(answer.out.splitlines()) < 12
    heading, _, *rows = (line for line in answer.out.splitlines() if line.startswith("|"))
    assert " ".join(heading.replace("|", " ").split()) == "scores accuracy balanced accuracy major minor macro-F1"
    found = json.loads(call("evaluate", run, "--adjust", "--tau", "1.5", "--json").out)
    for row, name in zip(rows, ("unadjusted", "adjusted"), strict=False):
        metrics = found[name]
        groups = [metrics["groups"][group] for group in ("major", "minor")]
        numbers = [metrics["accuracy"], metrics["balanced_accuracy"], *groups, metrics["macro_f1"]]
        assert row.replace("|", " ").split() == [name, *(f"{100 * number:.1f}" for number in numbers)]
    assert rows[2].startswith("| difference |")
    assert "How tau was chosen: as given. 40 test images" in answer.out
    assert "How tau was chosen: on the held-out images." in call("evaluate", run, "--adjust").out
    assert files_of(run) == before


def test_many_medium_and_few_are_shown_where_classes_are_many() -> None:
    counts = [200] * 10 + [50] * 10 + [5] * 10
    before = metrics_from_totals([9] * 10 + [5] * 10 + [1] * 10, [10] * 30, [10] * 30, counts)
    after = metrics_from_totals([8] * 10 + [6] * 10 + [4] * 10, [10] * 30, [10] * 30, counts)
    table = adjustment_table(Adjusted(1.0, "as given", adjusted=after, unadjusted=before), "run")
    lines = [dict(zip((c.name for c in table.columns), (c.text for c in row), strict=True)) for row in table.rows]
    assert [line["few"] for line in lines] == ["10.0", "40.0", "+30.0"]
    assert [line["many"] for line in lines] == ["90.0", "80.0", "-10.0"]
    assert [line["medium"] for line in lines] == ["50.0", "60.0", "+10.0"]
    balanced = metrics_from_totals([9] * 30, [10] * 30, [10] * 30, [50] * 30)  # no groups to speak of
    table = adjustment_table(Adjusted(1.0, "", adjusted=balanced, unadjusted=balanced), "run")
    assert [c.name for c in table.columns] == ["scores", "accuracy", "balanced accuracy", "macro-F1"]


def test_all_metrics_are_printed_as_json(run: Path, call: Call) -> None:
    found = json.loads(call("evaluate", run, "--adjust", "--tau", "1.5", "--json").out)
    assert (found["tau"], found["tau_chosen"]) == (1.5, "as given")
    evaluated = json.loads(call("evaluate", run, "--json").out)
    assert {"weights": "last", "statistics": "kept", **found["unadjusted"]} == evaluated
    assert found["adjusted"].keys() == found["unadjusted"].keys()
    assert json.loads(call("evaluate", run, "--adjust", "--json").out)["tau_chosen"] == "on the held-out images"


def test_strength_zero_prints_what_evaluate_prints(run: Path, call: Call) -> None:
    adjusted = json.loads(call("evaluate", run, "--adjust", "--tau", "0", "--json").out)["adjusted"]
    evaluated = json.loads(call("evaluate", run, "--json").out)
    assert {"weights": "last", "statistics": "kept", **adjusted} == evaluated


def test_it_writes_to_a_file_and_says_where(run: Path, call: Call) -> None:
    printed = call("evaluate", run, "--adjust", "--json").out
    summary = call("evaluate", run, "--adjust").out
    answer = call("evaluate", run, "--adjust", "--output", "adjusted.json")
    assert (answer.code, answer.out) == (0, summary + "\nAll metrics: adjusted.json\n")
    assert Path("adjusted.json").read_text() == printed
    both = call("evaluate", run, "--adjust", "--output", "both.json", "--json")
    assert Path("both.json").read_text() == both.out == printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--output", "run/result.json"), "run/result.json is inside the run run, which stays as it is"),
        (("--output", "nowhere/adjusted.json"), "cannot write nowhere/adjusted.json: there is no folder nowhere"),
        (("--output", "notes.txt"), "notes.txt exists and is not a file of metrics"),
        (("--tau", "-1"), "tau = -1.0 received; it has to be 0 (no adjustment) or more"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], said: str, run: Path, call: Call, files_of: Files
) -> None:
    before = files_of(run)
    Path("notes.txt").write_text("precious")
    answer = call("evaluate", run, "--adjust", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert Path("notes.txt").read_text() == "precious"
    assert files_of(run) == before


def test_several_runs_get_a_table_each(call: Call, npz: Path) -> None:
    for method in ("erm", "mfw"):
        assert call("train", npz, *SMALL[:-1], f"runs/{method}", "--method", method).code == 0
    answer = call("evaluate", "runs/erm", "runs/mfw", "--adjust", "--tau", "1")
    assert (answer.code, answer.err) == (0, "")
    for method in ("erm", "mfw"):
        assert f"## runs/{method}\n\n**Test results of runs/{method} in %" in answer.out
    assert call("evaluate", "runs", "--adjust", "--tau", "1").out == answer.out
    bad = call("evaluate", "runs/erm", "runs/mwf", "--adjust")
    assert (bad.code, "## runs/mwf\n\nThis run could not be tested." in bad.out) == (2, True)
    assert "There is no run at runs/mwf." in bad.err
    several = call("evaluate", "runs", "--adjust", "--json")
    assert "2 runs received; --json and --output take one run at a time" in several.err
    averaged = call("evaluate", "runs/erm", "--adjust", "--weights", "swa")
    assert "--adjust tests the last weights as they are" in averaged.err
    assert "no run received" in call("evaluate", "--adjust").err


def test_a_loss_that_corrects_already_is_refused(call: Call, npz: Path) -> None:
    assert call("train", npz, *SMALL, "--method", "balanced_softmax").code == 0
    answer = call("evaluate", "run", "--adjust")
    assert (answer.code, answer.out) == (2, "")
    assert "'balanced_softmax', whose loss corrects for the class sizes already" in answer.err


def test_a_method_that_balances_already_is_adjusted_with_a_warning(call: Call, npz: Path) -> None:
    assert call("train", npz, *SMALL, "--method", "crt").code == 0
    answer = call("evaluate", "run", "--adjust")
    assert answer.code == 0
    assert answer.err.startswith("warning: cRT makes up for the class sizes already (its sampler shows")
    assert len(answer.err.splitlines()) == 1
    assert call("evaluate", "run", "--adjust", "--tau", 0).err == ""
