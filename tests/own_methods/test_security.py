"""A folder of somebody else's names a file and brings it along: nothing in it is executed unless the user names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import read_code

Call = Callable[..., Any]

EVIL = "open('executed', 'w').close()\ndef f(problem): ...\n"
SMALL = ("--net", "small", "--epochs", "1", "--device", "cpu", "--quiet")


@pytest.fixture
def hostile(call: Call, npz: str) -> Path:
    """A finished run whose records name a file in its own folder, with the right hash and without any."""
    assert (
        call(
            "train", npz, "--method", "mine.py:two_stages", *SMALL[:2], "--epochs", "2", *SMALL[4:], "--run-dir", "run"
        ).code
        == 0
    )
    Path("run/evil.py").write_text(EVIL)
    return Path("run")


def spoil(run: Path, method: str) -> None:
    for name in ("config.json", "result.json"):
        record = json.loads((run / name).read_text())
        record.pop("hash", None)
        record["config"]["method"] = method
        (run / name).write_text(json.dumps(record))


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "run"),
        ("evaluate", "run", "--adjust"),
        ("diagnose", "run"),
        ("predict", "run", "photo.png"),
        ("export", "run", "--output", "exported"),
        ("report", "run", "--output", "page.html"),
        ("compare", "run"),
        ("resume", "run"),
        ("paper", "reproduce", "--results", "run", "--output", "."),
        ("paper", "reproduce", "--results", "run", "--show"),
    ],
    ids=lambda words: "-".join(words[:1]),
)
def test_no_command_executes_what_a_run_names(
    command: tuple[str, ...], hashed: bool, hostile: Path, call: Call
) -> None:
    spoil(hostile, f"run/evil.py:f@{read_code('run/evil.py').sha256}" if hashed else "run/evil.py:f")
    if command[0] == "resume":
        (hostile / "result.json").unlink()
    answer = call(*command)
    assert "Traceback" not in answer.err
    assert not Path("executed").exists()
    if command[0] not in ("report", "compare", "paper"):
        assert answer.code == 2


def test_nor_what_an_export_names(hostile: Path, call: Call) -> None:
    call("export", "run", "--method", "mine.py", "--output", "exported")
    record = json.loads(Path("exported/model.json").read_text())
    for name in (f"run/evil.py:f@{read_code('run/evil.py').sha256}", "run/evil.py:f"):
        record["spec"]["method"] = name
        Path("exported/model.json").write_text(json.dumps(record))
        assert call("predict", "exported", "photo.png").code == 2
    assert not Path("executed").exists()


def test_naming_another_file_does_not_help_it(hostile: Path, call: Call) -> None:
    spoil(hostile, f"run/evil.py:f@{read_code('run/evil.py').sha256}")
    assert call("evaluate", "run", "--method", "mine.py").code == 2
    assert not Path("executed").exists()


def settings_files(npz: str) -> None:
    """What somebody sends: settings, a grid and tables that name a file, and the file."""
    Path("evil.py").write_text(EVIL)
    run = {"source": npz, "net": "small", "epochs": 1, "device": "cpu", "method": "evil.py:f"}
    Path("run.yaml").write_text(json.dumps(run))
    Path("grid.yaml").write_text(json.dumps({"base": run}))
    rows = {"plain": {"method": "erm"}, "evil": {"method": "evil.py:f"}}
    base = {key: value for key, value in run.items() if key not in ("source", "method")}
    table = {"base": base, "columns": {"s": {"source": npz}}, "rows": rows}
    Path("tables.yaml").write_text(json.dumps({"tables": {"t": table}}))


#: Commands that train by a file of settings.
OF_FILES = {
    "train": ("train", "--config", "run.yaml", "--quiet"),
    "tune": ("tune", "--config", "run.yaml", "--over", "x=1,2", "--hold-out", "2", "--quiet"),
    "fleet": ("fleet", "grid.yaml", "--quiet"),
    "processes": ("fleet", "grid.yaml", "--processes", "1", "--quiet"),
    "reproduce": ("paper", "reproduce", "t", "--tables", "tables.yaml", "--quiet"),
}


@pytest.mark.parametrize("words", OF_FILES.values(), ids=OF_FILES)
def test_code_that_a_file_of_settings_names_has_to_be_allowed(words: tuple[str, ...], call: Call, npz: str) -> None:
    settings_files(npz)
    for other in ((), ("--allow-code", "mine.py")):
        refused = call(*words, *other)
        assert refused.code == 2
        assert "Name it: --allow-code evil.py" in refused.err
        assert not Path("executed").exists()
    call(*words, "--allow-code", "evil.py")
    assert Path("executed").exists()


def test_a_network_has_to_be_allowed_as_well(call: Call, npz: str) -> None:
    settings_files(npz)
    Path("run.yaml").write_text(json.dumps({"source": npz, "method": "erm", "net": "evil.py:f"}))
    refused = call("train", "--config", "run.yaml", "--quiet")
    assert refused.code == 2
    assert refused.err.startswith("procrustean: the network evil.py:f ")
    assert not Path("executed").exists()


def test_what_is_typed_is_allowed(call: Call, npz: str) -> None:
    settings_files(npz)
    Path("run.yaml").write_text(json.dumps({"source": npz, "method": "mine.py:tempered"}))
    for typed in (("--method", "mine.py:soft_mixup"), ("--method=mine.py:tempered",)):
        answer = call("train", "--config", "run.yaml", *typed, *SMALL)
        assert answer.code == 0, answer.err


@pytest.mark.parametrize("allowed", [(), ("--allow-code", "evil.py")], ids=["", "allowed"])
def test_a_dry_run_imports_no_code_of_a_table(allowed: tuple[str, ...], call: Call, npz: str) -> None:
    settings_files(npz)
    planned = call("paper", "reproduce", "t", "--tables", "tables.yaml", "--dry-run", "--seeds", "1", *allowed)
    assert planned.code == 0
    assert "1 run: 0 done" in planned.out
    assert "left out: 1 cell of t: evil.py:f is code that a file names, and a dry run imports none" in planned.out
    assert not Path("executed").exists()


@pytest.mark.parametrize("words", [("train",), ("tune", "--over", "x=1,2", "--hold-out", "2")], ids=lambda w: w[0])
@pytest.mark.parametrize("setting", ["method", "net"])
def test_nor_any_code_of_a_run(setting: str, words: tuple[str, ...], call: Call, npz: str) -> None:
    """Not even where it is allowed, or typed."""
    settings_files(npz)
    Path("run.yaml").write_text(json.dumps({"source": npz, "method": "erm", setting: "evil.py:f"}))
    for code in (
        ("--config", "run.yaml"),
        ("--config", "run.yaml", "--allow-code", "evil.py"),
        (npz, f"--{setting}", "evil.py:f"),
    ):
        answer = call(*words, *code, "--dry-run")
        assert (answer.code, answer.err) == (0, "")
        assert f"{setting}: evil.py:f@" in answer.out
        assert "# evil.py:f: a dry run imports no code of yours" in answer.out
    assert not Path("executed").exists()


def test_nor_does_what_only_shows_what_a_file_describes(call: Call, npz: str) -> None:
    settings_files(npz)
    for words in (
        ("paper", "reproduce", "--tables", "tables.yaml"),
        ("paper", "reproduce", "t", "--tables", "tables.yaml", "--show"),
        ("fleet", "grid.yaml", "--dry-run"),
    ):
        assert call(*words).code == 0, words
    assert not Path("executed").exists()
