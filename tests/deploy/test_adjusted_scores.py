"""Scores shifted after training: the formula, the choice of its strength, and where it is refused."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from procrustean import adjust, evaluate, fit
from procrustean.balance import Problem
from procrustean.balance.metrics import Metrics, metrics_from_confusion
from procrustean.base import ConfigError
from procrustean.deploy import adjusted_scores as posthoc
from procrustean.engine.images import ImageStore
from procrustean.methods import make_method
from procrustean.runs import load_run
from procrustean.runs.lint import corrections

SETTINGS: dict[str, Any] = {
    "imbalance": "step", "rho": 20, "epochs": 10, "net": "small", "device": "cpu", "precision": "fp32",
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    fit("digits", **SETTINGS, run_dir=folder / "plain")
    fit("digits", **{**SETTINGS, "precision": "bf16"}, run_dir=folder / "bf16")
    fit("digits", **SETTINGS, hold_out=2, run_dir=folder / "held_out")
    return {path.name: path for path in folder.iterdir()}


def slow_metrics(run: Path, tau: float, part: str = "test") -> Metrics:
    """One image at a time in Python numbers, from the scores of the network."""
    prepared, net = load_run(run)
    data, (mean, std) = prepared.data, prepared.recipe.normalisation
    images = ImageStore(getattr(data, part), device=torch.device("cpu"), mean=mean, std=std)
    counts = [int(n) for n in data.counts]
    matrix = [[0] * len(counts) for _ in counts]
    top5 = 0
    with torch.no_grad():
        scores = net(images.clean_at(slice(0, len(images)))).double().tolist()
    for row, label in zip(scores, images.labels.tolist(), strict=True):
        moved = [z - tau * math.log(n / sum(counts)) for z, n in zip(row, counts, strict=True)]
        matrix[label][moved.index(max(moved))] += 1
        top5 += sorted(moved, reverse=True).index(moved[label]) < 5
    return metrics_from_confusion(matrix, counts, top5_correct=top5)


@pytest.mark.parametrize("name", ["plain", "bf16", "held_out"])
def test_strength_zero_is_evaluation(runs: dict[str, Path], name: str) -> None:
    found, wanted = adjust(runs[name], tau=0), evaluate(runs[name])
    assert found.adjusted == found.unadjusted == wanted


@pytest.mark.parametrize("tau", [0.7, 2.0])
def test_it_equals_the_slow_reference(runs: dict[str, Path], tau: float) -> None:
    found = adjust(runs["plain"], tau=tau)
    assert (found.tau, found.tau_chosen) == (tau, "as given")
    assert found.adjusted == slow_metrics(runs["plain"], tau)
    assert found.unadjusted == evaluate(runs["plain"])
    assert found.adjusted.confusion != found.unadjusted.confusion


def test_more_images_are_taken_for_small_classes(runs: dict[str, Path]) -> None:
    predicted = []
    for tau in (0.0, 1.0, 2.0):
        columns = torch.tensor(adjust(runs["plain"], tau=tau).adjusted.confusion).sum(0)
        predicted.append(int(columns[5:].sum()))
    assert predicted == sorted(predicted)
    assert predicted[0] < predicted[-1]


def test_without_held_out_images_the_strength_is_one(runs: dict[str, Path]) -> None:
    found = adjust(runs["plain"])
    assert (found.tau, found.tau_chosen) == (1.0, "1, since no images are held out")
    assert found.adjusted == adjust(runs["plain"], tau=1.0).adjusted


def test_the_strength_is_chosen_on_held_out_images_the_smallest_of_the_best(runs: dict[str, Path]) -> None:
    run = runs["held_out"]
    accuracies = {t / 10: slow_metrics(run, t / 10, "held_out").balanced_accuracy for t in range(21)}
    wanted = min(tau for tau, accuracy in accuracies.items() if accuracy == max(accuracies.values()))
    assert min(accuracies.values()) < max(accuracies.values())
    found = adjust(run)
    assert (found.tau, found.tau_chosen) == (wanted, "on the held-out images")
    assert found.adjusted == slow_metrics(run, wanted)


@pytest.mark.parametrize("tau", [-0.1, math.inf, math.nan])
def test_an_impossible_strength_is_refused(runs: dict[str, Path], tau: float) -> None:
    with pytest.raises(ConfigError, match="has to be 0"):
        adjust(runs["plain"], tau=tau)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("balanced_softmax", {}),
        ("logit_adjustment", {"tau": 0.5}),
        ("vs", {}),
        ("cmo", {"loss": "balanced_softmax"}),
    ],
)
def test_losses_that_correct_already_are_refused(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    run = fit("digits", **{**SETTINGS, "epochs": 1}, method=method, options=options, run_dir=tmp_path / "run")
    with pytest.raises(ConfigError, match=f"{method!r}, whose loss corrects for the class sizes already"):
        adjust(run.path)


@pytest.mark.parametrize(("method", "options"), [("cdt", {}), ("logit_adjustment", {"tau": 0.0})])
def test_losses_without_a_shift_are_adjusted(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    run = fit("digits", **{**SETTINGS, "epochs": 1}, method=method, options=options, run_dir=tmp_path / "run")
    assert adjust(run.path).tau == 1.0


@pytest.mark.parametrize(
    ("method", "options", "how"),
    [
        ("crt", {}, "its sampler shows small classes more often"),
        ("lws", {}, "its sampler"),
        ("mislas", {}, "its sampler"),
        ("oltr", {}, "its sampler"),
        ("bbn", {}, "its second stream of images shows small classes more often"),
        ("m2m", {}, "its second stream"),
        ("cmo", {}, "its second stream"),
        ("meta_weight", {}, "a balanced set decides the weights of its samples"),
        ("domain_adaptation", {}, "a balanced set"),
        ("class_balanced", {}, "its class weights count small classes more"),
        ("erm", {"drw": True}, "its class weights"),
        ("mfw", {"drw": True}, "its class weights"),
        ("tau_norm", {}, "its class vectors are brought to more equal lengths after training"),
        ("erm", {}, None),
        ("mfw", {}, None),
        ("mixup", {}, None),
        ("tau_norm", {"tau": 0.0}, None),
    ],
)
def test_which_methods_correct_already(method: str, options: dict[str, Any], how: str | None) -> None:
    problem = Problem(counts=(50, 20, 5), kind="long_tailed", layers=("input", "group1", "group2"))
    found = corrections(make_method(method, problem, options))
    assert len(found) == (how is not None)
    assert how is None or found[0].startswith(how)


def test_a_run_whose_method_corrects_already_is_adjusted_with_a_warning(tmp_path: Path) -> None:
    run = fit("digits", **{**SETTINGS, "epochs": 1}, method="class_balanced", run_dir=tmp_path / "run")
    said = r"CB makes up for the class sizes already .*a shift by tau = 1 does so a second time.*take 'unadjusted'"
    with pytest.warns(UserWarning, match=said) as shown:
        adjust(run.path)
    assert [warning.filename for warning in shown] == [__file__]  # where the caller stands
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adjust(run.path, tau=0)


def test_a_strength_chosen_on_held_out_images_needs_no_warning(tmp_path: Path) -> None:
    settings = {**SETTINGS, "epochs": 1, "hold_out": 2}
    run = fit("digits", **settings, method="class_balanced", run_dir=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adjust(run.path).tau in posthoc.GRID


def test_the_strength_for_cosines_is_divided_by_their_scale(tmp_path: Path) -> None:
    settings = {**SETTINGS, "epochs": 1, "method": "ldam", "options": {"scale": 25.0}}
    run = fit("digits", **settings, run_dir=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = adjust(run.path)
        assert (found.tau, found.tau_chosen) == (1 / 25, "1 / 25, its scale, since no images are held out")
        assert found == adjust(run.path, tau=1 / 25)._replace(tau_chosen=found.tau_chosen)
    assert found.unadjusted == evaluate(run.path)
    held_out = fit("digits", **settings, hold_out=2, run_dir=tmp_path / "held_out")
    assert adjust(held_out.path).tau in [tau / 25 for tau in posthoc.GRID]
