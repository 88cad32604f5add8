"""Tables are written into new files or over older tables, never over anything else."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from procrustean.base import RunError
from procrustean.cli.outputs import METRICS, check_folder, check_output, write_table


@pytest.mark.parametrize("name", ["image.png", "result.json", "notes", "run.yaml"])
def test_what_is_no_table_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(RunError, match=f"{name} exists and is not a table .*choose another --output"):
        write_table(tmp_path / name, "a,b\n")
    assert (tmp_path / name).read_bytes() == b"precious"


def test_what_is_read_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prior.csv").write_text("cat,1\ndog,2\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=r"prior\.csv is read for this"):
        check_output(Path("prior.csv"), [tmp_path / "prior.csv"])


def test_new_files_and_older_tables(tmp_path: Path) -> None:
    write_table(tmp_path / "new", "a,b\n")
    write_table(tmp_path / "a.csv", "a,b\n")
    write_table(tmp_path / "a.csv", "c\n")
    assert ((tmp_path / "new").read_text(), (tmp_path / "a.csv").read_text()) == ("a,b\n", "c\n")
    with pytest.raises(RunError, match="not a table"):
        write_table(tmp_path, "a\n")


@pytest.mark.parametrize("parent", ["nowhere", "file"])
@pytest.mark.parametrize("check", [check_output, partial(check_output, endings=METRICS)])
def test_a_file_in_no_folder_is_refused_before_anything_is_computed(
    check: Callable[[Path], None], parent: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / parent / "a.new"
    with warnings.catch_warnings(action="error"), pytest.raises(RunError) as refused:
        check(output)
    assert str(refused.value) == (f"cannot write {output}: there is no folder {output.parent}; choose another --output")


@pytest.mark.parametrize("check", [check_output, partial(check_output, endings=METRICS)])
def test_a_file_in_a_folder_without_permission(
    check: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root writes anywhere
    with pytest.raises(
        RunError, match=r"cannot write .*a\.new: there is no permission to write into .*another --output"
    ):
        check(tmp_path / "a.new")


def test_a_folder_that_can_be_made_is_not_made_yet(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "a/b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root writes anywhere
    with pytest.raises(
        RunError, match=r"into .*new: there is no permission to write into .*; choose another --results"
    ):
        check_folder(tmp_path / "new", "--results")
