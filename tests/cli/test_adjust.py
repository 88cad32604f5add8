from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
Files = Callable[[Path], dict[str, bytes]]
SMALL = ("--net", "small", "--epochs", 2, "--device", "cpu", "--run-dir", "run")


@pytest.fixture
def run(call: Call, npz: Path) -> Path:
    assert call("train", npz, *SMALL, "--method", "mfw", "--hold-out", 2).code == 0
    return Path("run")


def test_metrics_are_printed_beside_the_unadjusted_ones_and_the_run_stays(
    run: Path, call: Call, files_of: Files
) -> None:
    before = files_of(run)
    answer = call("adjust", run, "--tau", "1.5")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert (found["tau"], found["tau_chosen"]) == (1.5, "as given")
    assert found["unadjusted"] == json.loads(call("evaluate", run).out)
    assert found["adjusted"].keys() == found["unadjusted"].keys()
    chosen = json.loads(call("adjust", run).out)
    assert chosen["tau_chosen"] == "on the held-out images"
    assert files_of(run) == before


def test_strength_zero_prints_what_evaluate_prints(run: Path, call: Call) -> None:
    assert json.loads(call("adjust", run, "--tau", "0").out)["adjusted"] == json.loads(call("evaluate", run).out)


def test_it_writes_to_a_file(run: Path, call: Call) -> None:
    printed = call("adjust", run).out
    answer = call("adjust", run, "--output", "adjusted.json")
    assert (answer.code, answer.out) == (0, "")
    assert Path("adjusted.json").read_text() == printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--output", "run/result.json"), "run/result.json is inside the run run, which stays as it is"),
        (("--output", "nowhere/adjusted.json"), "cannot write nowhere/adjusted.json"),
        (("--tau", "-1"), "tau = -1.0 received; it has to be 0 (no adjustment) or more"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], said: str, run: Path, call: Call, files_of: Files
) -> None:
    before = files_of(run)
    answer = call("adjust", run, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert files_of(run) == before


def test_a_loss_that_corrects_already_is_refused(call: Call, npz: Path) -> None:
    assert call("train", npz, *SMALL, "--method", "balanced_softmax").code == 0
    answer = call("adjust", "run")
    assert (answer.code, answer.out) == (2, "")
    assert "'balanced_softmax', whose loss corrects for the class sizes already" in answer.err


def test_cosines_are_adjusted_with_a_warning(call: Call, npz: Path) -> None:
    assert call("train", npz, *SMALL, "--method", "ldam").code == 0
    answer = call("adjust", "run")
    assert answer.code == 0
    assert answer.err.startswith("procrustean: warning: the scores of LDAM are cosines")
    assert len(answer.err.splitlines()) == 1


def test_a_method_that_balances_already_is_adjusted_with_a_warning(call: Call, npz: Path) -> None:
    assert call("train", npz, *SMALL, "--method", "crt").code == 0
    answer = call("adjust", "run")
    assert answer.code == 0
    assert answer.err.startswith("procrustean: warning: cRT makes up for the class sizes already (its sampler shows")
    assert len(answer.err.splitlines()) == 1
    assert call("adjust", "run", "--tau", 0).err == ""
