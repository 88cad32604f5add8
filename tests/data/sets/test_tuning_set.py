"""Options for Step Tiered-ImageNet are chosen on its tuning classes, then the classes to report are trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.data.sets import tiered_imagenet
from procrustean.data.stores.prepare import plan, prepare
from procrustean.records import RunSpec
from procrustean.runs.tuning_candidates import candidate_settings, default_hold_out

Call = Callable[..., Any]
TINY = ("--net", "small", "--epochs", 2, "--batch-size", 8, "--device", "cpu", "--precision", "fp32", "--quiet")
TUNING_CLASSES = ["n01530575", "n01531178", "n02099267"]
REPORTED_CLASSES = ["n01530575", "n01531178", "n03314780", "n07565083"]


@pytest.fixture
def tune(miniature: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Call) -> Call:
    """`tune(SOURCE, ...)` with Tiered-ImageNet prepared from the official layout, 12 images of each class."""
    monkeypatch.setattr(tiered_imagenet, "TEST_IMAGES", 4)
    monkeypatch.chdir(tmp_path)
    mini = miniature("tiered", each=12)
    prepare(plan(mini.known, mini.source, root=Path("data"), workers=1, size=16), on_bad_image="skip")
    return lambda *arguments: program("tune", *arguments, *TINY, "--data-dir", "data", "--output", "t")


def records(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(Path("t", folder).glob("*/result.json"))]


def test_chosen_on_the_tuning_classes_and_trained_on_the_reported_ones_by_one_command(tune: Call) -> None:
    arguments = ("tiered-imagenet", "--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 2)
    answer = tune(*arguments)
    assert answer.code == 0, answer.err
    candidates, final = records("candidates"), records("final")
    assert len(candidates) == len(final) == 2
    for record in candidates:
        assert record["config"]["source"] == "tiered-imagenet-tuning"
        assert record["data"]["classes"] == TUNING_CLASSES
        assert record["data"]["counts"] == [5, 5, 5]  # its validation images decide, not some of these
        assert record["data"]["held_out"] == 9
    study = json.loads(Path("t/tuning.json").read_text())
    assert study["config"]["source"] == "tiered-imagenet-tuning"
    assert study["final_source"] == "tiered-imagenet"
    for record in final:
        assert record["config"]["source"] == "tiered-imagenet"
        assert record["config"]["options"] == study["chosen"]
        assert record["data"]["classes"] == REPORTED_CLASSES
    chosen = f"alpha={study['chosen']['alpha']:g}"
    assert "on 9 held-out images of tiered-imagenet-tuning" in answer.out
    assert "images are of tiered-imagenet-tuning, the final training is on tiered-imagenet." in answer.out
    assert f"Trained on all training images of tiered-imagenet with {chosen}:" in answer.out
    before = {path: path.stat().st_mtime_ns for path in Path("t").glob("*/*/result.json")}
    assert tune(*arguments).out == answer.out
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_a_run_chooses_after_its_training_is_taken_along(tune: Call) -> None:
    assert tune("tiered-imagenet", "--method", "tau_norm").code == 0
    (candidate,), (final,) = records("candidates"), records("final")
    assert final["config"]["options"] == {"tau": candidate["method"]["finish"]["tau"]}
    assert final["data"]["classes"] == REPORTED_CLASSES


def test_the_reported_classes_themselves_can_be_chosen_on(tune: Call) -> None:
    arguments = ("tiered-imagenet", "--choose-on", "tiered-imagenet", "--hold-out", 0)
    answer = tune(*arguments, "--method", "mfw", "--over", "alpha=0.5,2")
    assert answer.code == 0, answer.err
    assert {record["config"]["source"] for record in (*records("candidates"), *records("final"))} == {"tiered-imagenet"}
    assert json.loads(Path("t/tuning.json").read_text())["final_source"] is None
    assert "Trained on all training images with" in answer.out


def test_what_the_final_data_set_does_not_allow_is_said_before_anything_is_trained(tune: Call) -> None:
    chosen = ("--choose-on", "tiered-imagenet-tuning", "--hold-out", 0)
    answer = tune("photos", *chosen, "--method", "mfw", "--over", "alpha=0.5,2")
    assert answer.code == 2
    assert "photos" in answer.err
    assert not Path("t").exists()


@pytest.mark.parametrize(
    ("source", "choose_on", "expected"),
    [
        ("tiered-imagenet", None, 0),
        ("tiered-imagenet", "tiered-imagenet", 0),
        ("tiered-imagenet", "cifar10", 3),
        ("imagenet-lt", None, 0),
        ("cifar10", None, 3),
        ("not-there", None, 0.15),
    ],
)
def test_how_many_images_decide_if_nothing_is_said(source: str, choose_on: str | None, expected: float) -> None:
    assert default_hold_out(RunSpec(source), choose_on) == expected


@pytest.mark.parametrize(
    ("source", "hold_out", "choose_on", "expected"),
    [
        ("tiered-imagenet", 3, None, ("tiered-imagenet-tuning", 0)),
        ("tiered-imagenet", 2, None, ("tiered-imagenet-tuning", 2)),
        ("tiered-imagenet", 3, "tiered-imagenet", ("tiered-imagenet", 3)),
        ("cifar10", 3, None, ("cifar10", 3)),
        ("cifar10", 3, "digits", ("digits", 3)),
    ],
)
def test_where_options_are_chosen(source: str, hold_out: int, choose_on: str | None, expected: Any) -> None:
    found = candidate_settings(RunSpec(source, hold_out=hold_out), choose_on)
    assert (found.source, found.hold_out) == expected
