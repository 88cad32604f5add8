"""Which runs a comparison takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.cli.outcome import finished_runs
from procrustean.errors import RunError
from procrustean.report.result_file import load_result


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
    assert (
        f"{fleet[1]} is not finished and left out; go on with: procrustean resume {fleet[1]}" in capsys.readouterr().err
    )


def test_no_finished_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="none of these runs is finished"):
        finished_runs([a_run(tmp_path / "one", finished=False)])


def test_a_result_file_stands_for_itself(tmp_path: Path) -> None:
    file = a_run(tmp_path / "one", finished=True) / "result.json"
    assert finished_runs([file]) == [file]


def test_commands_that_are_named_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(tmp_path / "my runs" / "one", finished=False)
    with pytest.raises(RunError):
        finished_runs([run])
    assert f"procrustean resume '{run}'" in capsys.readouterr().err
    with pytest.raises(RunError, match=f"procrustean resume '{run}'"):
        load_result(run)
