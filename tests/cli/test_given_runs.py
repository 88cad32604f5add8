"""Which runs a comparison takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_records import changed, written
from probed_runs import make_record
from procrustean.base import RunError
from procrustean.base.json_files import to_plain
from procrustean.cli.given_runs import distinct_runs, finished_runs
from procrustean.records.run_record import load_result


def a_run(path: Path, *, finished: bool) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    if finished:
        (path / "result.json").write_text("{}")
    return path


def test_folders_of_runs_are_opened_and_unfinished_runs_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = a_run(tmp_path / "one", finished=True)
    fleet = [a_run(tmp_path / "fleet" / name, finished=name != "b") for name in "abc"]
    found = finished_runs([one, tmp_path / "fleet"])
    assert found == [one, fleet[0], fleet[2]]
    assert f"left out {fleet[1]}: not finished; go on with: procrustean resume {fleet[1]}" in capsys.readouterr().err


def test_what_is_no_run_is_named_and_the_others_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = a_run(tmp_path / "one", finished=True)
    (tmp_path / "notes").mkdir()
    assert finished_runs([tmp_path / "notes", one]) == [one]
    assert f"left out {tmp_path / 'notes'}: not a run, and no run is in it" in capsys.readouterr().err
    with pytest.raises(RunError, match="none of these is a finished run"):
        finished_runs([tmp_path / "notes"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mfw-seed0.json", '{"format": 1, "sta'),
        ("digits-step20-mfw-drw-seed0-71392ded1c03.json", "[]"),
        ("digits-step20-erm-seed12-71392ded1c03-2.json", '{"format": 1}'),
        ("digits-step20-erm-seed1-71392ded1c03.json", '{"format": 1, "label": "ERM", "config": {}}'),
    ],
)
def test_a_file_that_may_have_been_a_result_is_named(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = a_run(tmp_path / "one", finished=True)
    damaged = tmp_path / "results" / name
    damaged.parent.mkdir()
    damaged.write_text(content)
    (tmp_path / "results" / "times-seed0.json").write_text("[1, 2]")
    of_a_study = {"format": 1, "config": {}, "times": [1, 2]}
    (tmp_path / "results" / "times-seed0-71392ded1c03.json").write_text(json.dumps(of_a_study))
    assert finished_runs([tmp_path]) == [one, damaged]
    assert distinct_runs([tmp_path]) == [one]
    assert f"left out 1 result without settings and weights of a run, for example {damaged}" in capsys.readouterr().err


def no_json(record: dict[str, Any]) -> str:
    return json.dumps(record)[:-5]


def another_kind(record: dict[str, Any]) -> str:
    return "[]"


def a_wrong_value(record: dict[str, Any]) -> str:
    record["selections"]["last"]["metrics"]["balanced_accuracy"] = 7.3
    return json.dumps(record)


@pytest.mark.parametrize("damage", [no_json, another_kind, a_wrong_value])
@pytest.mark.parametrize("place", ["result.json", "stripes-natural-erm-seed0-71392ded1c03.json"])
def test_a_damaged_result_is_named_and_the_others_are_shown(
    place: str, damage: Callable[[dict[str, Any]], str], call: Any, npz: Path
) -> None:
    tiny = ("--net", "small", "--epochs", 1, "--device", "cpu", "--method", "erm", "--quiet")
    assert call("train", npz, *tiny, "--run-dir", "runs/whole").code == 0
    Path("runs/other").mkdir()
    damaged = Path("runs/other", place)
    damaged.write_text(damage(json.loads(Path("runs/whole/result.json").read_text())))
    table = call("compare", "runs/whole").out
    answer = call("compare", "runs")
    assert (answer.code, answer.out) == (1, table)
    assert f"left out: {damaged} is " in answer.err
    for command in (("paper", "claims", "runs"), ("report", "runs", "--examples", 0, "--quiet")):
        answer = call(*command)
        assert answer.code == 1, answer.err
        assert f"left out: {damaged} is " in answer.err
    alone = call("compare", damaged)
    assert (alone.code, alone.out) == (2, "")
    assert "none of these is a finished run" in alone.err


#: Where numbers stand in a record, of any kind.
NUMBERS = (
    ("selections", "last", "metrics", "balanced_accuracy"),
    ("curves", "loss", 0),
    ("seconds", "total"),
    ("images_per_second",),
    ("data", "rho"),
    ("data", "counts", 0),
    ("selections", "last", "metrics", "confusion", 0, 0),
)


@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: str(place[-1]))
def test_a_whole_number_beyond_all_floats_spoils_no_other_run(place: tuple[Any, ...], call: Any, work: Path) -> None:
    whole = written(changed(make_record(), curves__loss=[0.5]), Path("runs/whole/result.json"))
    table = call("compare", "runs/whole").out
    assert "ERM" in table
    record = to_plain(whole.record)
    inside = record
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = 10**400
    Path("runs/other").mkdir()
    Path("runs/other/result.json").write_text(json.dumps(record))
    compared, reported = call("compare", "runs"), call("report", "runs", "--examples", 0, "--quiet")
    assert (compared.code, compared.out, reported.code) == (1, table, 1)
    for answer in (compared, reported):
        field = "$" + "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in place)
        field = field.replace("$.seconds.total", "$.seconds[...]")
        assert re.search(rf"left out: runs/other/result\.json is damaged \(.* - at `{re.escape(field)}`\)", answer.err)
    assert Path("report.html").exists()


@pytest.mark.parametrize("given", ["runs", "runs/tune", "runs/*"])
def test_a_tuning_stands_for_the_runs_on_all_images(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "runs" / "tune"
    final = a_run(study / "final" / "a", finished=True)
    tried = [a_run(study / "candidates" / name, finished=True) for name in "ab"]
    assert finished_runs(sorted(tmp_path.glob(given))) == [final]
    assert f"left out {study / 'candidates'}: 2 runs among which options were chosen" in capsys.readouterr().err
    assert finished_runs([study / "candidates"]) == tried
    assert finished_runs([tried[1]]) == [tried[1]]


def test_no_finished_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="none of these is a finished run"):
        finished_runs([a_run(tmp_path / "one", finished=False)])


def test_a_result_file_stands_for_itself(tmp_path: Path) -> None:
    file = a_run(tmp_path / "one", finished=True) / "result.json"
    assert finished_runs([file]) == [file]


def test_a_folder_of_result_files_stands_for_them(tmp_path: Path) -> None:
    record = {"format": 1, "label": "ERM", "config": {}, "selections": {}}
    files = [tmp_path / "results" / f"{name}.json" for name in "ab"]
    (tmp_path / "results").mkdir()
    for file in files:
        file.write_text(json.dumps(record))
    assert finished_runs([tmp_path / "results"]) == files


def test_runs_on_some_classes_have_a_table_of_their_own(call: Any, npz: Path) -> None:
    tiny = ("--net", "small", "--epochs", 1, "--device", "cpu", "--method", "erm", "--quiet")
    assert call("train", npz, *tiny, "--run-dir", "runs/all").code == 0
    assert call("train", npz, *tiny, "--classes", 0, 3, "--run-dir", "runs/some").code == 0
    answer = call("compare", "runs")
    titles = [line for line in answer.out.splitlines() if line.startswith("**")]
    data = [title.split(": ", 1)[1].split(", natural")[0] for title in titles]
    assert data == ["stripes", "stripes (2 classes: 0, 3)"]
    rows = call("compare", "runs", "--format", "csv").out.splitlines()
    assert len(rows) == 3
    assert call("compare", "runs", "--output", "table.md").code == 0
    assert Path("table.md").read_text().rstrip() == answer.out.rstrip()


def test_commands_that_are_named_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(tmp_path / "my runs" / "one", finished=False)
    with pytest.raises(RunError):
        finished_runs([run])
    assert f"procrustean resume '{run}'" in capsys.readouterr().err
    with pytest.raises(RunError, match=f"procrustean resume '{run}'"):
        load_result(run)
