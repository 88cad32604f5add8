"""Every command that names a method takes FILE.py:NAME."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Call = Callable[..., Any]

SMALL = ("--net", "small", "--epochs", "2", "--batch-size", "16", "--device", "cpu", "--quiet")
#: Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
BASE = {
    "source": "stripes.npz", "net": "small", "epochs": 2, "batch_size": 16, "lr": 0.05, "evaluate_every": 1,
    "device": "cpu",
}  # fmt: skip


def done(answer: Any) -> str:
    assert answer.code == 0, answer.err
    return str(answer.out)


def test_methods_explains_one_of_a_file(call: Call) -> None:
    shown = done(call("list", "methods", "mine.py:tempered"))
    assert shown.startswith("mine.py:tempered (your own, sha256 ")
    assert "Cross-entropy of scores that are divided." in shown
    assert "temperature=2.0, form='a', drw=False" in shown
    assert "Training time relative to ERM: 1 (not measured)" in shown


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mine.py", "It has: tempered, soft_mixup"),
        ("mine.py:temperd", "Did you mean 'tempered'?"),
        ("nowhere.py:f", "there is no file "),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        (
            "list",
            "methods",
        ),
        ("train", "digits", "--method"),
    ],
    ids=lambda words: words[0],
)
def test_what_is_wrong_with_a_name_is_said(command: tuple[str, ...], name: str, told: str, call: Call) -> None:
    answer = call(*command, name)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "command", [("train", "--method"), ("tune", "--over", "drw=true,false", "--method")], ids=lambda w: w[0]
)
def test_a_function_that_raises_is_told_with_its_line(command: tuple[str, ...], call: Call, npz: str) -> None:
    answer = call(command[0], npz, *command[1:], "mine.py:raises")
    line = Path("mine.py").read_text().splitlines().index('    return {}["alpha"]') + 1
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"procrustean: mine.py:raises builds no method: KeyError, line {line}: 'alpha'\n"


def test_an_error_in_training_points_into_the_file(call: Call, npz: str) -> None:
    answer = call("train", npz, "--method", "mine.py:wrong_loss", *SMALL)
    line = Path("mine.py").read_text().splitlines().index("        return logits @ labels") + 1
    assert answer.code == 1
    assert f"RuntimeError in {Path('mine.py').resolve()}, line {line}: size mismatch" in answer.err
    assert "return logits @ labels" in Path(answer.err.split()[-1]).read_text()


@pytest.mark.parametrize("processes", [(), pytest.param(("--processes", "1"), marks=pytest.mark.slow)])
def test_an_error_in_one_of_many_trainings_is_told_with_its_place(
    processes: tuple[str, ...], call: Call, npz: str
) -> None:
    line = Path("mine.py").read_text().splitlines().index("        return logits @ labels") + 1
    told = f"failed: RuntimeError in {Path('mine.py').resolve()}, line {line}: size mismatch"
    Path("grid.yaml").write_text(yaml.safe_dump({"base": BASE, "runs": [{"method": "mine.py:wrong_loss"}]}))
    failed = call("fleet", "grid.yaml", "--output", "runs", "--allow-code", "mine.py", "--quiet", *processes)
    assert failed.code == 1
    assert told in failed.err
    over = ("--over", "temperature=1,3", "--hold-out", "2", "--output", "tuned")
    tuned = call("tune", npz, "--method", "mine.py:wrong_loss", *over, *SMALL)
    assert tuned.code == 2
    assert told in tuned.err


def test_the_whole_way_of_a_run(call: Call, npz: str) -> None:
    method = ("--method", "mine.py:tempered", "--options", "temperature=3", "--drw")
    assert "Tempered-DRW" in done(call("train", npz, *method, *SMALL, "--run-dir", "runs/mine"))
    done(call("train", npz, "--method", "erm", *SMALL, "--run-dir", "runs/erm"))
    Path("mine.py").rename("kept.py")
    assert "Tempered-DRW" in done(call("compare", "runs/mine", "runs/erm"))
    done(call("report", "runs/mine", "runs/erm", "--output", "page.html", "--quiet"))
    assert "temperature" in Path("page.html").read_text()
    done(call("evaluate", "runs/mine"))
    done(call("export", "runs/mine", "--output", "exported"))
    for command in (
        ("diagnose", "runs/mine"),
        ("evaluate", "runs/mine", "--adjust"),
        ("evaluate", "runs/mine", "--statistics", "clean"),
    ):
        refused = call(*command)
        assert refused.code == 2
        assert "Name it: --method mine.py, wherever it is now" in refused.err
        done(call(*command, "--method", "kept.py"))


def test_each_run_says_what_it_lacks(call: Call, npz: str) -> None:
    for seed in ("0", "1", "2"):
        trained = ("--method", "mine.py:tempered", "--seed", seed, *SMALL, "--run-dir", f"runs/{seed}")
        done(call("train", npz, *trained))
    answer = call("evaluate", "runs", "--adjust")
    assert answer.code == 2
    *lines, last = answer.err.splitlines()
    for run, line in enumerate(lines):
        assert line.startswith(f"procrustean: runs/{run}: the method mine.py:tempered (sha256 ")
        assert "Name it: --method mine.py" in line
    assert last == "procrustean: 3 of 3 runs could not be tested: runs/0, runs/1, runs/2"
    assert answer.out.count("This run could not be tested.") == 3


def test_the_report_shows_pictures_of_a_changed_network_if_its_file_is_named(call: Call, npz: str) -> None:
    done(call("train", npz, "--method", "mine.py:two_stages", *SMALL, "--run-dir", "run"))
    page = Path("page.html")
    done(call("report", "run", "--output", "page.html", "--quiet"))
    told, pictures = "Name it: --method mine.py, wherever it is now", page.read_text().count("data:image/png")
    assert told in page.read_text()
    done(call("report", "run", "--method", "mine.py", "--output", "page.html", "--quiet"))
    assert told not in page.read_text()
    assert page.read_text().count("data:image/png") > pictures  # those of the worst mistakes need no network


def test_printed_settings_hold_the_file_to_its_text(call: Call, npz: str) -> None:
    printed = done(call("train", npz, "--method", "mine.py:tempered", *SMALL, "--dry-run"))
    assert yaml.safe_load(printed)["method"].startswith("mine.py:tempered@")
    Path("mine.yaml").write_text(printed)
    allowed = ("train", "--config", "mine.yaml", "--allow-code", "mine.py", "--quiet", "--run-dir")
    done(call(*allowed, "first"))
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    refused = call(*allowed, "second")
    assert refused.code == 2
    assert "has changed since the run or its settings were made" in refused.err


def test_resume_names_the_file(call: Call, npz: str) -> None:
    done(call("train", npz, "--method", "mine.py:soft_mixup", *SMALL, "--run-dir", "run"))
    for name in ("result.json", "model.safetensors", "epochs.jsonl"):
        Path("run", name).unlink()  # as if it had been killed in its first epoch
    refused = call("resume", "run")
    assert refused.code == 2
    assert "--method mine.py" in refused.err
    assert "go on with: procrustean resume run --method mine.py" in call("compare", "run").err
    done(call("resume", "run", "--method", "mine.py", "--quiet"))
    assert Path("run/result.json").exists()


def test_fleet(call: Call, npz: str) -> None:
    kinds = [{"method": "erm"}, {"method": "mine.py:soft_mixup", "drw": True}]
    Path("grid.yaml").write_text(yaml.safe_dump({"base": BASE, "runs": kinds, "grid": {"seed": [0, 1]}}))
    words = ("fleet", "grid.yaml", "--output", "runs", "--allow-code", "mine.py", "--quiet")
    shown = done(call(*words))
    assert "Soft mixup-DRW" in shown
    before = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*/result.json")}
    assert len(before) == 4
    assert done(call(*words)) == shown
    assert before == {path: path.stat().st_mtime_ns for path in Path("runs").glob("*/result.json")}
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    done(call(*words))
    assert len(list(Path("runs").glob("*soft_mixup*/result.json"))) == 4  # another text, other runs
    done(call("compare", "runs"))


def test_tune(call: Call, npz: str) -> None:
    over = ("--over", "temperature=1,3", "--hold-out", "2", "--output", "tuned")
    shown = done(call("tune", npz, "--method", "mine.py:tempered", *over, *SMALL))
    assert "temperature" in shown
    assert json.loads(Path("tuned/tuning.json").read_text())["config"]["method"].startswith("mine.py:tempered@")
    again = call("tune", npz, "--method", "mine.py:tempered", *over, *SMALL)
    assert (again.code, "has changed" in again.err) == (0, False)
    assert "no default grid for 'mine.py:tempered'; give one" in call("tune", npz, "--method", "mine.py:tempered").err
    refused = call("tune", npz, "--method", "mine.py:tempered", "--over", "temprature=1,3", *SMALL)
    assert "Did you mean 'temperature'?" in refused.err
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    edited = call("tune", npz, "--method", "mine.py:tempered", *over, *SMALL)
    assert (edited.code, "begin anew" in edited.err) == (2, False)
    assert "tuned was begun with other settings" in edited.err
    assert "method is tempered@" in edited.err


def test_tables_of_ones_own(call: Call, npz: str) -> None:
    rows = {"ERM": {"method": "erm"}, "mine": {"method": "mine.py:tempered", "drw": True}}
    table = {"base": {k: v for k, v in BASE.items() if k != "source"}, "columns": {"s": {"source": npz}}, "rows": rows}
    Path("mine.yaml").write_text(yaml.safe_dump({"tables": {"t": table}}))
    words = (
        "paper",
        "reproduce",
        "t",
        "--tables",
        "mine.yaml",
        "--seeds",
        "1",
        "--output",
        "runs",
        "--results",
        "results",
    )
    words += ("--allow-code", "mine.py")
    shown = done(call(*words, "--quiet"))
    assert "mine" in shown
    before = sorted(Path("results").rglob("*.json"))
    assert done(call(*words, "--quiet")) == shown
    assert sorted(Path("results").rglob("*.json")) == before
    # Its results are another method's once the file is edited; without the table they are in nobody's way.
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    answer = call(*words, "--show")
    shown = done(answer)
    said = "left out: runs of mine.py:tempered, but "
    assert answer.err.count("left out") == answer.err.count(said) == 1  # the run and the copy of its result
    assert "mine.py has been edited since: put back the text that it had to see them" in answer.err
    assert re.search(r"^\| mine +\| +— \| +— \| +— \|", shown, re.MULTILINE), shown
    done(call(*words, "--quiet"))
    assert re.search(r"^\| mine +\| +\d+", done(call(*words, "--show")), re.MULTILINE)
    elsewhere = call("paper", "reproduce", "--results", "results", "--output", "runs", "--allow-code", "mine.py")
    assert done(elsewhere)
    assert "left out: runs of mine.py:tempered, but " in elsewhere.err  # of the older text
    elsewhere = call("paper", "reproduce", "--results", "results", "--output", "runs")
    done(elsewhere)
    assert "left out: runs of mine.py:tempered, whose code is not imported unless --allow-code mine.py" in elsewhere.err
