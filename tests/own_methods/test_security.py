"""A folder of somebody else's names a file and brings it along: nothing in it is executed unless the user names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.own_methods.files import read_code

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
        ("adjust", "run"),
        ("diagnose", "run"),
        ("predict", "run", "photo.png"),
        ("export", "run", "--output", "exported"),
        ("report", "run", "--output", "page.html"),
        ("compare", "run"),
        ("resume", "run"),
        ("reproduce", "--results", "run", "--output", "."),
        ("reproduce", "--results", "run", "--show"),
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
    if command[0] not in ("report", "compare", "reproduce"):
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
