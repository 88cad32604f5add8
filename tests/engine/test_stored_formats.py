"""Files written by released versions load; files of formats that do not exist yet are refused with both numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.api import evaluate, load_run, resume
from procrustean.cli import main
from procrustean.cli.config_file import read_config
from procrustean.config import RunConfig
from procrustean.engine.run_directory import RunDirectory
from procrustean.errors import RunError
from procrustean.report.results import load_result

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=sorted(path.name for path in FIXTURES.glob("format-*")))
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a version has written; its runs name their images by a path below it."""
    monkeypatch.chdir(shutil.copytree(FIXTURES / request.param, tmp_path / request.param))
    return Path.cwd()


def test_a_finished_run_is_read(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = load_result(stored / "finished")
    assert result.label == "ERM"
    assert main(["compare", "finished"]) == 0
    assert "ERM" in capsys.readouterr().out


def test_the_network_of_a_finished_run_gives_its_metrics_again(stored: Path) -> None:
    recorded = load_result(stored / "finished").metrics("last")
    found = evaluate("finished")
    assert recorded is not None
    # Another version of torch may round the outputs of one image differently.
    assert found["accuracy"] == pytest.approx(recorded["accuracy"], abs=0.05)
    _, net = load_run("finished")
    assert not net.training


def test_an_unfinished_run_goes_on(stored: Path) -> None:
    before = (stored / "unfinished/epochs.jsonl").read_text().splitlines()
    run = resume("unfinished")
    assert run.result["label"] == "MFW w/ DRW"
    assert (stored / "unfinished/epochs.jsonl").read_text().splitlines()[: len(before)] == before
    assert len(run.result["curves"]["loss"]) == 3
    assert np.isfinite(run.result["curves"]["loss"]).all()
    assert (stored / "unfinished/held_out.safetensors").exists()


def test_an_unfinished_run_without_its_held_out_weights_is_refused(stored: Path) -> None:
    (stored / "unfinished/held_out.safetensors").unlink()
    with pytest.raises(RunError, match=r"held_out\.safetensors is missing or damaged"):
        resume("unfinished")


def test_a_configuration_is_read(stored: Path) -> None:
    config = RunConfig(**read_config(stored / "run.yaml"))
    assert (config.method, config.drw, config.seed, config.rho) == ("mfw", True, 3, 20.0)


def test_the_hash_of_settings_is_what_it_was(stored: Path) -> None:
    """Folders are named by it, and a run is continued only where it is the same."""
    _, config, _ = RunDirectory.open(stored / "unfinished")
    assert config.hash == "34648c38e4ee"


NEWER: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "configuration": ("unfinished/config.json", lambda stored: resume(stored / "unfinished")),
    "manifest": ("unfinished/checkpoints.json", lambda stored: resume(stored / "unfinished")),
    "result": ("finished/result.json", lambda stored: load_result(stored / "finished")),
}


@pytest.mark.parametrize("number", [2, 99, "1", None, [1]])
@pytest.mark.parametrize("kind", NEWER)
def test_a_format_of_the_future_is_refused(kind: str, number: Any, stored: Path) -> None:
    name, read = NEWER[kind]
    record = json.loads((stored / name).read_text())
    (stored / name).write_text(json.dumps({**record, "format": number}))
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    with pytest.raises(RunError) as refused:
        read(stored)
    message = str(refused.value)
    assert Path(name).name in message
    assert f"format {number!r}" in message
    assert "reads format 1" in message
    assert "newer" in message
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before
