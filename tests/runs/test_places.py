"""What a path that is given for runs stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from procrustean.base import RunError
from procrustean.deploy.model_loading import model_folder
from procrustean.records.finding_runs import runs_in
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result

RECORD = json.dumps({"format": 1, "label": "ERM", "config": {}, "selections": {}})


def a_run(path: Path, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in files or ("config.json",):
        (path / name).write_text("{}")
    return path


def test_a_folder_of_runs_stands_for_those_in_it(tmp_path: Path) -> None:
    for name, file in (("b", "config.json"), ("a", "config.json"), ("a", "result.json"), ("copied", "result.json")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / file).write_text("{}")
    (tmp_path / "notes").mkdir()
    assert [run.name for run in runs_in(tmp_path)] == ["a", "b", "copied"]
    assert runs_in(tmp_path / "a") == [tmp_path / "a"]
    assert runs_in(tmp_path / "a" / "result.json") == [tmp_path / "a" / "result.json"]
    assert runs_in(tmp_path / "notes") == [tmp_path / "notes"]
    with pytest.raises(RunError, match="no run at"):
        runs_in(tmp_path / "nowhere")


def test_a_folder_of_result_files_stands_for_them(tmp_path: Path) -> None:
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text(RECORD)
    (tmp_path / "times.json").write_text('{"format": 1}')
    (tmp_path / "notes.json").write_text("no JSON")
    run = a_run(tmp_path / "more" / "run", "result.json")
    damaged = tmp_path / "notes.json"  # to be named by whoever reads it
    assert runs_in(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json", damaged, run]


def test_runs_of_a_folder_come_as_the_library_lists_their_methods(tmp_path: Path) -> None:
    """Of a copy of the record alone too; the order of names would be ERM, Smoothing, LDAM, MFW with DRW and without."""
    names = ["a-erm", "b-mine", "c-ldam", "d-mfw-drw", "e-mfw", "f-mfw"]
    methods = ["erm", "mine.py:smoothing@0123", "ldam", "mfw", "mfw", "mfw"]
    for name, method in zip(names, methods, strict=True):
        settings = {"config": {"method": method, "drw": "drw" in name}}
        run = a_run(tmp_path / "fleet" / name, file := "result.json" if name == "e-mfw" else "config.json")
        (run / file).write_text(json.dumps(settings))
    found = [run.name for run in runs_in(tmp_path / "fleet")]
    assert found == ["a-erm", "c-ldam", "e-mfw", "f-mfw", "d-mfw-drw", "b-mine"]
    a_run(tmp_path / "earlier")
    assert [run.name for run in runs_in(tmp_path)] == ["earlier", *found]


def test_a_folder_between_two_runs_does_not_change_their_order(tmp_path: Path) -> None:
    for name, method in (("a-mfw", "mfw"), ("b/x", "ldam"), ("c-erm", "erm")):
        (a_run(tmp_path / name) / "config.json").write_text(json.dumps({"config": {"method": method}}))
    assert [run.name for run in runs_in(tmp_path)] == ["c-erm", "a-mfw", "x"]


def test_one_message_for_a_run_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "runs" / "emr"
    said = f"There is no run at {missing}. Mend the path."
    for ask in (runs_in, load_result, RunFolder.open):
        with pytest.raises(RunError) as raised:
            ask(missing)
        assert str(raised.value) == said
    with pytest.raises(RunError, match=r"There is no run or export at .*emr\. Mend the path"):
        model_folder(missing)


def test_a_folder_of_runs_is_no_run_but_names_one(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "erm")
    with pytest.raises(RunError, match=f"runs is not a run directory: it has no config.json. .* for example {run}"):
        RunFolder.open(tmp_path / "runs")
