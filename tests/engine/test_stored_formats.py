"""Files that were written once load; files of formats that do not exist yet are refused with both numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.base import DataError, RunError
from procrustean.cli import main
from procrustean.cli.config_file import read_config
from procrustean.data import load_source
from procrustean.data.stores.store import open_store, verify
from procrustean.deploy import load_model
from procrustean.engine.stored_features import load_features
from procrustean.records import RunSpec, load_result
from procrustean.records.run_folder import RunFolder
from procrustean.records.several_runs import Comparison, agreed, chosen_run, read_comparison
from procrustean.runs import evaluate, load_run, tune
from procrustean.runs.train_api import resume

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
    assert found.accuracy == pytest.approx(recorded.accuracy, abs=0.05)
    _, net = load_run("finished")
    assert not net.training


def test_an_unfinished_run_goes_on(stored: Path) -> None:
    before = (stored / "unfinished/epochs.jsonl").read_text().splitlines()
    run = resume("unfinished")
    assert run.record.label == "MFW-DRW"
    assert (stored / "unfinished/epochs.jsonl").read_text().splitlines()[: len(before)] == before
    assert len(run.record.curves.loss) == 3
    assert np.isfinite(run.record.curves.loss).all()
    assert (stored / "unfinished/held_out.safetensors").exists()


def test_a_configuration_is_read(stored: Path) -> None:
    config = RunSpec(**read_config(stored / "run.yaml"))
    assert (config.method, config.drw, config.seed, config.rho) == ("mfw", True, 3, 20.0)


def test_the_hash_of_settings_is_what_it_was(stored: Path) -> None:
    """Folders are named by it, and a run is continued only where it is the same."""
    _, config, _ = RunFolder.open(stored / "unfinished")
    assert config.hash == "561584bdd286"
    assert replace(config, lr=None, evaluate_every=None).hash == "34648c38e4ee"


@pytest.fixture
def exported(stored: Path) -> Path:
    """An export of the finished run, whose weights are kept once."""
    shutil.copy(stored / "finished/model.safetensors", stored / "export")
    return stored / "export"


@pytest.fixture
def compared(stored: Path) -> Path:
    """A comparison of methods, with a run in the place of the one it chose."""
    shutil.copytree(stored / "finished", stored / "comparison/balanced-softmax")
    return stored / "comparison"


def test_an_export_is_a_model_with_the_probabilities_of_its_run(stored: Path, exported: Path) -> None:
    images = load_source("stripes.npz").test.images
    model = load_model(exported, device="cpu")
    assert model.classes == ("class0", "class1", "class2", "class3")
    assert model.spec.input_shape == (8, 8, 1)
    assert model.probabilities(images) == pytest.approx(
        load_model(stored / "finished", device="cpu").probabilities(images)
    )


def test_a_comparison_of_methods_stands_for_the_run_it_chose(compared: Path) -> None:
    assert chosen_run(compared) == compared / "balanced-softmax"
    comparison = read_comparison(compared)
    assert comparison is not None
    assert [(each.name, each.held_out_balanced_accuracy) for each in comparison.compared][3:6] == [
        ("mfw-drw", 0.25),
        ("remix-drw", 0.375),
        ("balanced-softmax", 0.5),
    ]
    assert load_model(compared, device="cpu").classes[0] == "class0"
    asked = RunSpec(
        "stripes.npz", method="auto", net="small", epochs=2, batch_size=16, hold_out=2, device="cpu", precision="fp32"
    )
    kept = agreed(compared, Comparison, asked)
    assert kept is not None
    assert kept.config.epochs == 2  # the same command goes on with it


def test_a_prepared_store_is_read(stored: Path) -> None:
    assert verify(stored / "store") == 18
    store = open_store(stored / "store")
    assert store.split("train").counts.tolist() == [4, 4, 4]
    assert store.split("test").counts.tolist() == [2, 2, 2]


def test_kept_features_are_read(stored: Path) -> None:
    kept = load_features(stored / "features")
    assert kept.epoch == 2
    assert len(kept.train) == len(kept.train_labels) == 60
    assert len(kept.test) == len(kept.test_labels) == 40
    assert kept.head_weight is not None
    assert kept.head_weight.shape == (4, kept.train.shape[1])


TUNE = (
    "tune stripes.npz --net small --epochs 2 --batch-size 16 --hold-out 2 --device cpu --precision fp32 "
    "--method focal --over gamma=1,2 --output tuning --quiet"
)


def test_a_tuning_goes_on_without_training_again(stored: Path) -> None:
    before = {path: path.read_bytes() for path in stored.rglob("*.json*")}
    assert main(TUNE.split()) == 0
    kept = before.pop(stored / "tuning/tuning.json")
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads(kept)["format"] == 1
    assert json.loads((stored / "tuning/tuning.json").read_text())["chosen"] == json.loads(kept)["chosen"]


NEWER: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "configuration": ("unfinished/config.json", lambda stored: resume(stored / "unfinished")),
    "manifest": ("unfinished/checkpoints.json", lambda stored: resume(stored / "unfinished")),
    "result": ("finished/result.json", lambda stored: load_result(stored / "finished")),
    "export": ("export/model.json", lambda stored: load_model(stored / "export", device="cpu")),
    "comparison": ("comparison/auto.json", lambda stored: load_model(stored / "comparison", device="cpu")),
    "tuning": ("tuning/tuning.json", lambda stored: tuned(stored)),
}


def tuned(stored: Path) -> None:
    config = json.loads((stored / "tuning/tuning.json").read_text())["config"]
    tune(RunSpec.from_json(config), {"gamma": (1, 2)}, stored / "tuning")


@pytest.mark.parametrize("number", [2, 99, "1", None, [1]])
@pytest.mark.parametrize("kind", NEWER)
@pytest.mark.usefixtures("exported", "compared")
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


@pytest.mark.parametrize("number", [2, "1", None])
def test_a_store_of_the_future_is_refused(number: Any, stored: Path) -> None:
    record = json.loads((stored / "store/store.json").read_text())
    (stored / "store/store.json").write_text(json.dumps({**record, "format": number}))
    with pytest.raises(DataError, match=f"format {number}, this version reads 1"):
        open_store(stored / "store")
