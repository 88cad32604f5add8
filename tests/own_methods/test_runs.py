"""Runs with methods of files: repeatable, resumable, and never mixed up with those of another text."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from method_costs import bench_methods
from procrustean.base import ConfigError, RunError, read_code, use_file
from procrustean.deploy import Classifier, adjust, load_model
from procrustean.nets import NETS
from procrustean.records import RunSpec
from procrustean.runs import Stopped, evaluate, fit, fit_many, resume

NewProcess = Callable[[], None]
NOT_NAMED = "no file is imported that you have not named yourself"


@pytest.fixture
def stopped(npz: str, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch, new_process: NewProcess) -> Path:
    """A run of a mixing method with deferred weights that was stopped after five steps."""
    steps = iter(range(5))

    @contextmanager
    def countdown(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
        def stop() -> bool:
            return next(steps, None) is None

        stop.exit_code = 130  # type: ignore[attr-defined]
        yield stop

    with monkeypatch.context() as patch:
        patch.setattr("procrustean.runs.train_api.stop_on_signal", countdown)
        with pytest.raises(Stopped, match=r"go on with: procrustean resume run --method mine\.py$"):
            fit(npz, method="mine.py:soft_mixup", drw=True, run_dir="run", **tiny)
    new_process()
    return Path("run")


def test_the_record_names_the_file_and_its_code(npz: str, tiny: dict[str, Any]) -> None:
    run = fit(npz, method="./mine.py:tempered", options={"temperature": 3}, **tiny)
    digest = read_code("mine.py").sha256
    kept = json.loads((run.path / "config.json").read_text())
    assert kept["config"]["method"] == f"./mine.py:tempered@{digest}"
    assert run.record.method.name == "./mine.py:tempered"
    assert run.record.method.sha256 == digest
    assert run.record.method.options["temperature"] == 3.0
    assert run.path.name.startswith("stripes-natural-tempered-seed0-")


def test_a_loss_with_the_class_sizes_in_it_is_known_to_a_model(
    npz: str, tiny: dict[str, Any], new_process: NewProcess
) -> None:
    Path("sizes.py").write_text(
        "from procrustean.balance import Problem\n"
        "from procrustean.methods import Method, make_method\n"
        "def balanced(problem: Problem) -> Method:\n"
        "    return Method(stages=make_method('balanced_softmax', problem).stages, label='Balanced')\n"
    )
    own, plain = (fit(npz, method=name, **tiny) for name in ("sizes.py:balanced", "mine.py:tempered"))
    new_process()
    assert load_model(own.path).spec.method == "erm"  # the file is not imported
    assert load_model(own.path).spec.calibration.tau == 1
    assert load_model(plain.path).spec.calibration.tau == 0


def test_records_of_the_librarys_own_methods_are_what_they_were(npz: str, tiny: dict[str, Any]) -> None:
    run = fit(npz, method="erm", run_dir="erm", **tiny)
    assert run.record.method.name == "erm"
    assert "sha256" not in json.loads(Path("erm/result.json").read_text())["method"]
    assert not json.loads(Path("erm/config.json").read_text())["identity"]["plain_network"]


def test_a_stopped_run_goes_on_to_what_it_would_have_been(
    stopped: Path, npz: str, tiny: dict[str, Any], work: Path
) -> None:
    with pytest.raises(ConfigError, match=NOT_NAMED):
        resume(stopped)
    (work / "moved").mkdir()
    for name in ("mine.py", "shared_numbers.py"):
        shutil.move(work / name, work / "moved" / name)
    use_file("moved/mine.py")
    resume(stopped)
    fit(npz, method="moved/mine.py:soft_mixup", drw=True, run_dir="whole", **tiny)
    assert Path("run/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()


@pytest.mark.parametrize("file", ["mine.py", "shared_numbers.py"])
def test_a_run_does_not_go_on_with_an_edited_file(file: str, stopped: Path, work: Path) -> None:
    before = {p.name: p.read_bytes() for p in stopped.iterdir()}
    (work / file).write_text((work / file).read_text() + "# edited\n")
    use_file("mine.py")
    with pytest.raises(ConfigError, match=r"has changed since .* Put back the text that it had, or train a new run"):
        resume(stopped)
    assert {p.name: p.read_bytes() for p in stopped.iterdir()} == before


def test_an_edited_file_is_refused_the_folder_of_the_run_before(stopped: Path, npz: str, tiny: dict[str, Any]) -> None:
    again: dict[str, Any] = {"method": "mine.py:soft_mixup", "drw": True, "run_dir": stopped, **tiny}
    with pytest.raises(RunError, match=r"this very run, unfinished; go on with: procrustean resume run --method mine"):
        fit(npz, **again)
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    with pytest.raises(RunError, match=r"other settings \(method: 'soft_mixup@\w{12}' there, 'soft_mixup@\w{12}' here"):
        fit(npz, **again)


def test_where_the_network_alone_suffices_the_file_is_not_needed(
    npz: str, tiny: dict[str, Any], new_process: NewProcess
) -> None:
    run = fit(npz, method="mine.py:tempered", drw=True, run_dir="run", **tiny)
    new_process()
    Path("mine.py").unlink()
    assert evaluate("run") == run.metrics
    pixels = np.load(npz)["test_images"][..., None]
    scores = load_model("run").scores(pixels)
    assert np.mean(scores.argmax(1) == np.load(npz)["test_labels"]) == run.metrics.accuracy
    for needs_the_loss in (lambda: evaluate("run", statistics="mixed"), lambda: adjust("run")):
        with pytest.raises(ConfigError, match=NOT_NAMED):
            needs_the_loss()


def test_where_the_method_changes_the_network_the_file_is_needed(
    npz: str, tiny: dict[str, Any], new_process: NewProcess
) -> None:
    run = fit(npz, method="mine.py:two_stages", run_dir="run", **tiny)
    assert [stage.name for stage in run.record.method.stages] == ["features", "head"]
    new_process()
    for use in (evaluate, load_model):
        with pytest.raises(ConfigError, match=NOT_NAMED):
            use("run")
    use_file("mine.py")
    assert evaluate("run") == run.metrics
    assert load_model("run").spec.method.startswith("mine.py:two_stages@")


@pytest.mark.slow
def test_several_processes_train_it(npz: str, tiny: dict[str, Any]) -> None:
    base = RunSpec(npz, method="mine.py:soft_mixup", drw=True, **tiny)
    configs = [RunSpec.from_json({**base.to_json(), "seed": seed, "run_dir": f"p/{seed}"}) for seed in (0, 1)]
    outcomes = fit_many(configs, processes=2)
    assert [outcome.error for outcome in outcomes] == [None, None]
    alone = fit(npz, method="mine.py:soft_mixup", drw=True, run_dir="alone", **tiny)
    assert Path("p/0/model.safetensors").read_bytes() == (alone.path / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_file_that_is_edited_before_a_process_starts_is_refused(npz: str, tiny: dict[str, Any]) -> None:
    config = RunSpec(npz, method="mine.py:tempered", run_dir=Path("p"), **tiny)
    Path("mine.py").write_text(Path("mine.py").read_text() + "\n")
    (outcome,) = fit_many([config], processes=1)
    assert "has changed since" in str(outcome.error)


def test_the_estimator_takes_it_and_is_pickled_without_it(npz: str, new_process: NewProcess) -> None:
    arrays = np.load(npz)
    fitted = Classifier(method="mine.py:tempered", net="small", epochs=1, device="cpu")
    fitted.fit(arrays["train_images"], arrays["train_labels"])
    assert fitted.method_ == "tempered"
    content = pickle.dumps(fitted)
    new_process()
    there = pickle.loads(content).predict_proba(arrays["test_images"])
    assert np.allclose(there, fitted.predict_proba(arrays["test_images"]))


def test_its_cost_can_be_measured(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETS, "resnet32", NETS["small"])  # of which every method is measured
    measured = bench_methods(device="cpu", methods=("mine.py:tempered",), steps=1, repeats=1)["methods"]
    assert [row["method"] for row in measured] == ["erm", "mine.py:tempered"]
