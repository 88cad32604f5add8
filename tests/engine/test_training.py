from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file
from torch import nn

from procrustean.balance import Batch, Classify, Clock, Problem
from procrustean.balance.metrics import Metrics
from procrustean.balance.objectives import Objective
from procrustean.base import ConfigError, ProcrusteanError, RunError
from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import CannotWrite, Diverged
from procrustean.base.progress import Reporter
from procrustean.data import ImageSet, Splits, recipe_for
from procrustean.engine import training
from procrustean.engine.evaluation import evaluate_net
from procrustean.engine.prepared_run import (
    Prepared,
)
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods import Method, Stage
from procrustean.records import RunSpec, load_result
from procrustean.records.run_record import StageRecord
from procrustean.runs import evaluate, fit, load_run
from procrustean.runs.train_api import Stopped, resume
from saved_states import saved_states, state

Files = Callable[[Path], dict[str, bytes]]
Same = Callable[[Path, Path], None]


@pytest.fixture
def run_settings(tiny: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return {**tiny, "run_dir": tmp_path / "run"}


def strict_json(path: Path) -> Any:
    """JSON by the letter: NaN and infinity, which Python would read, are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{path} holds {constant}")

    return json.loads(path.read_text(), parse_constant=refuse)


def weights_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_is_said_when_class_weights_set_in(splits: Splits, run_settings: dict[str, Any], tmp_path: Path) -> None:
    class Told(Reporter):
        def __init__(self) -> None:
            self.said: list[str] = []

        def say(self, text: str) -> None:
            self.said.append(text)

        def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
            self.said.append(f"epoch {epoch + 1} done")

    told, plain = Told(), Told()
    fit(splits, **{**run_settings, "epochs": 5}, drw=True, reporter=told)
    weighted = [line for line in told.said if "class weights" in line]
    assert [line.partition(": ")[2] for line in weighted] == [
        "class weights (DRW) from epoch 5 on, so the loss is another"
    ]
    assert told.said.index("epoch 4 done") < told.said.index(weighted[0]) < told.said.index("epoch 5 done")
    fit(splits, **{**run_settings, "epochs": 5, "run_dir": tmp_path / "plain"}, reporter=plain)
    assert not any("class weights" in line for line in plain.said)


# Evaluation and selection


@pytest.mark.parametrize(("every", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [1, 3, 4]), (3, [2, 4]), (9, [4])])
def test_the_last_epoch_is_always_evaluated(
    every: int, expected: list[int], splits: Splits, run_settings: dict[str, Any]
) -> None:
    run = fit(splits, **{**run_settings, "epochs": 5}, evaluate_every=every)
    curves = run.record.curves
    assert curves.evaluated == expected
    for name in ("test_accuracy", "test_balanced_accuracy", "test_recall", "train_recall"):
        assert len(getattr(curves, name)) == len(expected), name
    assert len(curves.loss) == len(curves.lr) == 5
    assert run.record.selections.last.epoch == 4
    assert curves.test_accuracy[-1] == run.metrics.accuracy


def test_evaluating_does_not_change_the_training(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    often = fit(splits, **tiny, run_dir=tmp_path / "often", evaluate_every=1, track_training=True)
    once = fit(splits, **tiny, run_dir=tmp_path / "once", evaluate_every=3)
    assert often.record.curves.loss == once.record.curves.loss
    assert (often.path / "model.safetensors").read_bytes() == (once.path / "model.safetensors").read_bytes()


def test_an_epoch_is_counted_as_one_pass_over_the_images(splits: Splits, run_settings: dict[str, Any]) -> None:
    """Mean loss per image, not per batch: the incomplete batch of 12 counts less than those of 16."""
    losses = []

    class Recording(Classify):
        def forward(self, *arguments: Any) -> torch.Tensor:
            loss = super().forward(*arguments)
            losses.append((float(loss.detach()), len(arguments[1].y)))
            return loss

    from procrustean.methods import erm

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(erm, "Classify", Recording)
        run = fit(splits, **{**run_settings, "epochs": 1})
    assert [size for _, size in losses] == [16, 16, 16, 12]
    expected = sum(loss * size for loss, size in losses) / 60
    assert run.record.curves.loss == [pytest.approx(expected, rel=1e-6)]


def scripted(monkeypatch: pytest.MonkeyPatch, *, held_out: list[float], test: list[float] | None = None) -> None:
    """Give the held-out set (8 images) and the test set (40) accuracies in turn; all else is measured."""
    scripts = {8: iter(held_out), 40: iter(test or [])}

    def scripted_net(net: nn.Module, images: Any, counts: Any, *rest: Any) -> Metrics:
        metrics = evaluate_net(net, images, counts, *rest)
        value = next(scripts.get(len(images), iter(())), None)
        return metrics if value is None else replace(metrics, accuracy=value, balanced_accuracy=value)

    monkeypatch.setattr(training, "evaluate_net", scripted_net)


def test_ties_on_the_held_out_images_go_to_the_later_epoch(
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop_after: Callable[[int], None],
) -> None:
    settings = {**run_settings, "epochs": 4, "hold_out": 2}
    scripted(monkeypatch, held_out=[0.5, 0.75, 0.75, 0.7])
    run = fit(splits, **settings)
    chosen = run.record.selections.held_out
    assert chosen.epoch == 2
    assert run.record.curves.held_out_balanced_accuracy == [0.5, 0.75, 0.75, 0.7]
    # Its weights are those the run had after that epoch: stop the same run there and look.
    scripted(monkeypatch, held_out=[0.5, 0.75, 0.75, 0.7])
    stop_after(12)
    with pytest.raises(Stopped):
        fit(splits, **{**settings, "run_dir": tmp_path / "stopped"})
    tensors, _ = state(tmp_path / "stopped")
    then = {name.removeprefix("net."): value for name, value in tensors.items() if name.startswith("net.")}
    assert weights_equal(load_file(run.path / "held_out.safetensors"), then)
    assert not weights_equal(load_file(run.path / "model.safetensors"), then)


def test_the_held_out_selection_is_reported_on_the_test_images(splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "epochs": 6, "lr": 0.01, "hold_out": 2})
    chosen = run.record.selections.held_out
    curve = run.record.curves.held_out_balanced_accuracy
    assert chosen.epoch == max(range(6), key=lambda epoch: (curve[epoch], epoch))
    assert chosen.metrics.images == len(splits.test)
    assert evaluate(run.path, weights="held_out", splits=splits) == chosen.metrics
    assert evaluate(run.path, splits=splits) == run.metrics


def test_the_oracle_is_the_best_epoch_on_the_test_images(
    splits: Splits, run_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, held_out=[], test=[0.3, 0.6, 0.6, 0.4])
    run = fit(splits, **{**run_settings, "epochs": 4})
    selections = run.record.selections
    assert selections.oracle.epoch == 1
    assert selections.oracle.metrics.accuracy == 0.6
    assert selections.last.epoch == 3
    assert selections.last.metrics.accuracy == 0.4
    assert selections.held_out is None


def test_an_unbalanced_test_set_is_judged_by_balanced_accuracy(
    splits: Splits, run_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    test = splits.test.subset(np.arange(4, 40))  # 6, 10, 10 and 10 images
    values = iter([(0.9, 0.3), (0.5, 0.7), (0.8, 0.6)])

    def scripted_net(net: nn.Module, images: Any, counts: Any, *rest: Any) -> Metrics:
        accuracy, balanced_accuracy = next(values)
        metrics = evaluate_net(net, images, counts, *rest)
        return replace(metrics, accuracy=accuracy, balanced_accuracy=balanced_accuracy)

    monkeypatch.setattr(training, "evaluate_net", scripted_net)
    run = fit(Splits("stripes", splits.train, test), **run_settings)
    assert run.metrics.headline == "balanced_accuracy"
    assert run.record.selections.oracle.epoch == 1
    assert "balanced accuracy 60.0 %" in repr(run)


def test_a_hold_out_reduces_the_counts_and_the_record_says_so(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    plain = fit(splits, **tiny, run_dir=tmp_path / "all")
    assert plain.record.data.counts == [24, 18, 12, 6]
    assert (plain.record.data.train, plain.record.data.held_out) == (60, 0)
    assert plain.record.curves.held_out_balanced_accuracy is None
    assert not (plain.path / "held_out.safetensors").exists()
    run = fit(splits, **{**tiny, "hold_out": 6}, run_dir=tmp_path / "held")
    data = run.record.data
    assert data.counts == [18, 12, 6, 6]  # the smallest class would be empty and gives nothing
    assert (data.train, data.held_out) == (42, 18)
    assert (data.held_out_counts, data.left_out_of_hold_out) == ([6, 6, 6, 0], ["class3"])
    assert data.split_hash != plain.record.data.split_hash
    assert run.record.config.hold_out == 6


def test_weights_that_were_never_kept_are_named(splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **run_settings)
    with pytest.raises(RunError, match=r"has no held_out\.safetensors: it was trained without --hold-out"):
        evaluate(run.path, weights="held_out", splits=splits)
    with pytest.raises(ConfigError, match="weights = 'best' received; accepted: 'last', 'held_out'"):
        evaluate(run.path, weights="best", splits=splits)


def test_evaluating_needs_a_finished_run(
    splits: Splits, run_settings: dict[str, Any], stop_after: Callable[[int], None]
) -> None:
    stop_after(5)
    with pytest.raises(Stopped):
        fit(splits, **run_settings)
    with pytest.raises(RunError, match="is not finished"):
        evaluate(run_settings["run_dir"], splits=splits)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["erm", "ldam"])
def test_a_stored_run_gives_its_recorded_metrics_again(
    method: str, precision: str, splits: Splits, run_settings: dict[str, Any]
) -> None:
    run = fit(splits, **{**run_settings, "method": method, "precision": precision})
    assert evaluate(run.path, splits=splits) == run.metrics
    _, net = load_run(run.path, splits=splits)
    assert weights_equal(net.state_dict(), run.net.state_dict())


def test_other_data_are_not_evaluated_as_if_they_were_the_same(splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **run_settings)
    other = ImageSet(255 - splits.train.images, splits.train.labels, splits.train.classes)
    with pytest.raises(RunError, match="cannot be used: its images have changed"):
        evaluate(run.path, splits=Splits("stripes", other, splits.test))


@pytest.mark.parametrize("size", [0, 1000])
def test_damaged_weights_are_named(size: int, splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **run_settings)
    os.truncate(run.path / "model.safetensors", size)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        evaluate(run.path, splits=splits)


# The record

METRICS = {
    "accuracy", "balanced_accuracy", "macro_f1", "top5", "recall", "precision", "groups", "confusion", "images",
}  # fmt: skip
RECORD: dict[str, set[str]] = {
    "": {
        "format", "label", "finished_at", "config", "recipe", "data", "method", "selections", "curves",
        "seconds", "images_per_second", "environment",
    },
    "config": {"source", "imbalance", "rho", "data_seed", "hold_out", "net", "method", "options", "drw", "recipe"},
    "recipe": {"name", "epochs", "batch_size", "lr", "momentum", "weight_decay", "schedule", "net"},
    "data": {
        "source", "classes", "counts", "kind", "rho", "split_hash", "source_hash", "train", "test", "held_out",
    },
    "method": {"name", "options", "stages", "parameters"},
    "selections": {"last", "held_out", "oracle"},
    "curves": {
        "loss", "lr", "evaluated", "test_accuracy", "test_balanced_accuracy", "held_out_balanced_accuracy",
        "train_recall", "test_recall",
    },
    "seconds": {"total", "train", "evaluate", "first_step"},
    "environment": {"device", "precision", "reason", "engine", "torch", "python", "procrustean", "machine"},
}  # fmt: skip


def test_the_record_has_all_its_parts(splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "method": "mfw", "hold_out": 2}, drw=True, track_training=True)
    record = strict_json(run.path / "result.json")
    assert load_result(run.path).record == run.record
    for part, keys in RECORD.items():
        found = record[part] if part else record
        assert keys <= found.keys(), (part, keys - found.keys())
    assert set(RunSpec.__dataclass_fields__) == record["config"].keys()
    for selection in record["selections"].values():
        assert selection["metrics"].keys() >= METRICS
        assert selection["metrics"]["groups"].keys() == {"many", "medium", "few", "major", "minor"}
        assert np.sum(selection["metrics"]["confusion"]) == 40
    assert record["label"] == "MFW-DRW"
    assert record["method"]["stages"] == [{"name": "train", "epochs": 3}]
    assert record["method"]["parameters"] == sum(p.numel() for p in run.net.parameters())
    assert len(record["curves"]["train_recall"]) == 3
    assert all(len(recall) == 4 for recall in record["curves"]["train_recall"])
    assert record["seconds"]["total"] > 0
    assert record["images_per_second"] > 0


def test_every_line_of_the_epochs_is_json_without_nan(splits: Splits, run_settings: dict[str, Any]) -> None:
    # A class without test images has no recall.
    test = splits.test.subset(np.arange(0, 30))
    run = fit(Splits("stripes", splits.train, test), **run_settings)
    lines = (run.path / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["epoch"] for line in lines] == [0, 1, 2]
    record = strict_json(run.path / "result.json")
    assert record["selections"]["last"]["metrics"]["recall"][3] is None


# Chance


def test_the_same_seed_gives_the_same_weights_another_seed_others(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, same_run: Same
) -> None:
    first = fit(splits, **tiny, seed=3, run_dir=tmp_path / "first")
    same_run(fit(splits, **tiny, seed=3, run_dir=tmp_path / "second").path, first.path)
    other = fit(splits, **tiny, seed=4, run_dir=tmp_path / "other")
    assert not weights_equal(load_file(first.path / "model.safetensors"), load_file(other.path / "model.safetensors"))
    assert first.record.data.split_hash == other.record.data.split_hash


def test_the_programs_own_generators_do_not_matter(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, same_run: Same
) -> None:
    paths = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        paths.append(fit(splits, **{**tiny, "method": "mfw"}, run_dir=tmp_path / str(seed)).path)
    same_run(*paths)


def test_training_leaves_torchs_generator_as_it_was(splits: Splits, run_settings: dict[str, Any]) -> None:
    before = torch.get_rng_state()
    fit(splits, **run_settings)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_stage_does_not_reseed_the_gpus(
    splits: Splits, run_settings: dict[str, Any], two_stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    fit(splits, **{**run_settings, "method": two_stage})
    assert seeds == []


def test_training_leaves_the_program_as_it_was(splits: Splits, run_settings: dict[str, Any], two_stage: str) -> None:
    def state() -> list[Any]:
        name, keys, *rest = np.random.get_state()
        cudnn = torch.backends.cudnn
        return [
            *(name, keys.tolist(), rest, random.getstate(), torch.get_default_dtype(), torch.get_num_threads()),
            *(torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(), cudnn.benchmark),
            *(cudnn.deterministic, torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu")),
            *(os.environ.copy(), Path.cwd()),
        ]

    before = state()
    fit(splits, **{**run_settings, "method": two_stage, "precision": "bf16"})
    assert state() == before


# Sizes


@pytest.mark.parametrize("batch_size", [60, 64, 100_000])
def test_a_batch_may_be_larger_than_the_data(batch_size: int, splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "batch_size": batch_size, "method": "mfw"})
    assert len(run.record.curves.loss) == 3
    assert run.record.recipe.batch_size == batch_size


@pytest.mark.parametrize("batch_size", [1, 59, 60])
def test_the_last_batch_may_hold_one_image(batch_size: int, splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "epochs": 1, "batch_size": batch_size, "method": "mfw"})
    assert len(run.record.curves.loss) == 1


@pytest.mark.parametrize("batch_size", [16, 1])
def test_one_image_of_tiny_images_is_no_batch(batch_size: int, run_settings: dict[str, Any]) -> None:
    """33 images of 4 x 4 in batches of 16: the last batch is one image, whose last feature map is one pixel."""
    labels = np.repeat([0, 1], [20, 13]).astype(np.int64)
    images = ImageSet(np.random.RandomState(0).randint(0, 255, (33, 4, 4, 1)).astype(np.uint8), labels, ("a", "b"))
    with pytest.raises(ConfigError, match=rf"in batches of {batch_size} leave one image of 4 x 4 pixels alone"):
        fit(Splits("tiny", images, images), **{**run_settings, "batch_size": batch_size})
    assert not run_settings["run_dir"].exists()


# Values that are no numbers


@pytest.mark.parametrize("how", ["loss", "gradient"])
@pytest.mark.parametrize(("step", "epoch", "in_epoch"), [(1, 1, 1), (6, 2, 2), (8, 2, 4), (12, 3, 4)])
def test_a_value_that_is_no_number_is_named(
    step: int,
    epoch: int,
    in_epoch: int,
    how: str,
    splits: Splits,
    run_settings: dict[str, Any],
    nan_at: Callable[..., list[list[int]]],
) -> None:
    batches = nan_at(step, how)
    with pytest.raises(RunError, match=f"epoch {epoch}, step {in_epoch}, on training images") as raised:
        fit(splits, **run_settings)
    shown = re.search(r"training images \[([\d, ]+?)(, \.\.\.)?\]", str(raised.value))
    assert shown is not None
    named = [int(index) for index in shown.group(1).split(", ")]
    assert named == batches[step - 1][:8]
    assert "a lower learning rate (lr)" in str(raised.value)
    assert ("It was the first step" in str(raised.value)) == (step == 1)
    path = run_settings["run_dir"]
    assert not (path / "result.json").exists()
    assert not (path / "model.safetensors").exists()
    assert len((path / "epochs.jsonl").read_text().splitlines() if epoch > 1 else []) == epoch - 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_weights_before_it_are_kept(
    precision: str,
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nan_at: Callable[..., list[list[int]]],
    stop_after: Callable[[int], None],
    same_run: Same,
) -> None:
    settings = {**run_settings, "precision": precision, "method": "mfw"}
    whole = fit(splits, **{**settings, "run_dir": tmp_path / "whole"}, checkpoint_every=0)
    stop_after(5)
    with pytest.raises(Stopped):
        fit(splits, **{**settings, "run_dir": tmp_path / "stopped"})
    stop_after(0)
    expected, _ = state(tmp_path / "stopped")

    nets = []
    build = Prepared.build_net
    monkeypatch.setattr(Prepared, "build_net", lambda self: nets.append(build(self)) or nets[-1])
    nan_at(6)
    with pytest.raises(RunError, match="epoch 2, step 2"):
        fit(splits, **settings, checkpoint_every=0)
    found = nets[-1].state_dict()
    for name, value in found.items():
        if value.is_floating_point():
            kept = expected[f"net.{name}"].to(value.dtype)  # the network works on copies in low precision
            assert torch.equal(value, kept), name

    # Its last checkpoint is the step before, whole: with the cause gone the run goes on to the right end.
    assert state(settings["run_dir"])[1]["step"] == 1
    monkeypatch.undo()
    same_run(resume(settings["run_dir"], splits=splits).path, whole.path)


@pytest.mark.parametrize(
    ("checkpoint_every", "said"), [(0.0, "the checkpoint before it is intact"), (1000.0, "no checkpoint was written")]
)
def test_a_run_that_diverges_says_whether_there_is_a_checkpoint(
    checkpoint_every: float, said: str, splits: Splits, run_settings: dict[str, Any], nan_at: Callable[[int], Any]
) -> None:
    nan_at(3)
    with pytest.raises(RunError, match=f"; {said}$"):
        fit(splits, **{**run_settings, "checkpoint_every": checkpoint_every})
    assert bool(saved_states(run_settings["run_dir"])) == (checkpoint_every == 0)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_learning_rate_beyond_all_reason(precision: str, splits: Splits, run_settings: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"non-finite loss, gradient or weight in epoch \d, step \d"):
        fit(splits, **{**run_settings, "precision": precision}, lr=1e30)
    assert not (run_settings["run_dir"] / "result.json").exists()


# Run directories


def test_a_finished_run_is_not_overwritten(splits: Splits, run_settings: dict[str, Any], files_of: Files) -> None:
    path = fit(splits, **run_settings).path
    before = files_of(path)
    with pytest.raises(RunError, match=f"{path} holds this very run, finished; see: procrustean compare"):
        fit(splits, **run_settings)
    with pytest.raises(RunError, match=r"other settings \(seed: 0 there, 1 here\); choose another --run-dir"):
        fit(splits, **run_settings, seed=1)
    assert files_of(path) == before


def test_an_unfinished_run_is_not_overwritten(
    splits: Splits, run_settings: dict[str, Any], files_of: Files, stop_after: Callable[[int], None]
) -> None:
    stop_after(5)
    with pytest.raises(Stopped):
        fit(splits, **run_settings)
    path = run_settings["run_dir"]
    before = files_of(path)
    with pytest.raises(RunError, match=f"this very run, unfinished; go on with: procrustean resume {path}"):
        fit(splits, **run_settings)
    with pytest.raises(RunError, match=r"other settings \(.*lr: [0-9.]+ there, 0\.3 here"):
        fit(splits, **run_settings, lr=0.3)
    assert files_of(path) == before


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "result.json", "model.safetensors", "sub/file"])
def test_a_folder_that_holds_anything_is_refused(
    name: str, splits: Splits, run_settings: dict[str, Any], files_of: Files
) -> None:
    path = run_settings["run_dir"]
    (path / name).parent.mkdir(parents=True)
    (path / name).write_text("precious")
    with pytest.raises(RunError, match="exists and is not an empty folder"):
        fit(splits, **run_settings)
    assert files_of(path) == {name: b"precious"}


def test_an_empty_folder_is_taken(splits: Splits, run_settings: dict[str, Any]) -> None:
    run_settings["run_dir"].mkdir()
    assert fit(splits, **run_settings).path == run_settings["run_dir"]


@pytest.mark.parametrize("below", ["", "run", "a/b/c"])
def test_a_file_is_no_run_directory(below: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunError, match="choose another --run-dir"):
        fit(splits, **tiny, run_dir=tmp_path / "file" / below)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_without_permission(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    if os.geteuid() == 0:  # root writes anywhere: let the system refuse by hand
        make = Path.mkdir

        def refuse(self: Path, *arguments: Any, **more: Any) -> None:
            if folder in self.parents:
                raise PermissionError(13, "Permission denied", str(self))
            make(self, *arguments, **more)

        monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(RunError, match=r"cannot create the run directory .*locked/run \(Permission denied\)"):
        fit(splits, **tiny, run_dir=folder / "run")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "epochs.jsonl", "model.safetensors", "result.json"])
def test_a_full_disk_is_an_error_of_the_run(
    name: str, splits: Splits, run_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses to put one of the files in place."""
    replace, path = os.replace, run_settings["run_dir"]

    def full(source: Any, target: Any) -> None:
        if Path(target).name == name:
            raise OSError(28, "No space left on device")
        replace(source, target)

    if name == "epochs.jsonl":
        path.mkdir()
        monkeypatch.setattr("builtins.open", _full_open(name))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CannotWrite, match=f"cannot write .*{name}.*No space left on device.*Make room"):
        fit(splits, **run_settings)
    assert not (path / "result.json").exists()
    assert not list(path.glob(".*.tmp"))


def _full_open(name: str) -> Callable[..., Any]:
    real = open

    def refuse(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if str(file).endswith(name) and mode != "r":
            raise OSError(28, "No space left on device")
        return real(file, mode, *arguments, **more)

    return refuse


def test_a_name_too_long_for_the_system(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="choose another --run-dir"):
        fit(splits, **tiny, run_dir=tmp_path / ("long" * 100))


def test_a_wrong_layer_leaves_no_run_directory(splits: Splits, run_settings: dict[str, Any]) -> None:
    """Else the mended command is refused: the folder holds a run with other settings."""
    with pytest.raises(ConfigError, match="group9"):
        fit(splits, **{**run_settings, "method": "mfw"}, options={"layer": "group9"})
    assert not run_settings["run_dir"].exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "mfv"},
        {"net": "resnet33"},
        {"epochs": 0},
        {"batch_size": 0},
        {"lr": -1.0},
        {"hold_out": 24},
        {"imbalance": "step", "rho": 7.0},
        {"options": {"alpha": 1}},
        pytest.param(
            {"engine": "captured"},
        ),
        {"device": "cuda"},
    ],
    ids=str,
)
def test_wrong_settings_leave_no_run_directory(
    wrong: dict[str, Any], splits: Splits, run_settings: dict[str, Any]
) -> None:
    if torch.cuda.is_available() and wrong.get("device") == "cuda":
        pytest.skip("not wrong here: there is a GPU")
    with pytest.raises(ProcrusteanError):
        fit(splits, **{**run_settings, **wrong})
    assert not run_settings["run_dir"].exists()


# Several stages


def test_a_second_stage_trains_its_part_alone(
    two_stage: str, splits: Splits, run_settings: dict[str, Any], tmp_path: Path, stop_after: Callable[[int], None]
) -> None:
    settings = {**run_settings, "method": two_stage, "epochs": 4}
    run = fit(splits, **settings)
    assert run.record.method.stages == [
        StageRecord(name="features", epochs=2),
        StageRecord(name="classifier", epochs=2),
    ]
    assert run.record.curves.lr[2:] == pytest.approx([0.2, 0.1])
    assert [json.loads(line)["stage"] for line in (run.path / "epochs.jsonl").open()] == [0, 0, 1, 1]
    # Boundaries: 7 in the first stage, then one after each step; this one follows the first step of the second.
    stop_after(8)
    with pytest.raises(Stopped):
        fit(splits, **{**settings, "run_dir": tmp_path / "stopped"})
    (end_of_features, before), (in_classifier, after) = (state(tmp_path / "stopped", back) for back in (1, 0))
    assert (before["stage"], after["stage"]) == (1, 1)
    trained = [f"net.{name}" for name, _ in run.net.named_parameters() if not name.startswith("head.")]
    last = {f"net.{name}": value for name, value in run.net.state_dict().items()}
    for name in trained:
        assert torch.equal(end_of_features[name], last[name]), f"{name} should be frozen"
    for name in ("net.head.weight", "net.head.bias"):
        assert not torch.equal(in_classifier[name], last[name]), f"{name} should learn"
    # The head began anew: it is nowhere near the first stage's after one step.
    assert not torch.allclose(end_of_features["net.head.weight"], in_classifier["net.head.weight"], atol=0.05)
    assert {name for name in in_classifier if name.startswith("velocity.")} == {
        "velocity.head.weight",
        "velocity.head.bias",
    }


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_stages_resume_anywhere(
    precision: str,
    two_stage: str,
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    stop_after: Callable[[int], None],
    same_run: Same,
) -> None:
    settings = {**run_settings, "method": two_stage, "epochs": 4, "precision": precision, "hold_out": 2}
    whole = fit(splits, **settings).path
    for step in (1, 4, 6, *range(7, 11), 14):  # eight of them in each stage
        path = tmp_path / f"step{step}"
        stop_after(step)
        with pytest.raises(Stopped):
            fit(splits, **{**settings, "run_dir": path})
        stop_after(0)
        same_run(resume(path, splits=splits).path, whole)


def test_a_run_resumes_between_its_stages(
    two_stage: str,
    splits: Splits,
    run_settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    same_run: Same,
) -> None:
    """Ended right after a stage's last checkpoint, before the next stage began or the result was written."""
    settings = {**run_settings, "method": two_stage, "epochs": 4}
    whole = fit(splits, **settings).path
    save = training.RunFolder.save_checkpoint
    for stage in (1, 2):

        def ended(self: Any, tensors: Any, position: Any, stage: int = stage) -> None:
            save(self, tensors, position)
            if (position["stage"], position["epoch"], position["step"]) == (stage, 0, 0):
                raise KeyboardInterrupt

        path = tmp_path / f"stage{stage}"
        with monkeypatch.context() as patched:
            patched.setattr(training.RunFolder, "save_checkpoint", ended)
            with pytest.raises(KeyboardInterrupt):
                fit(splits, **{**settings, "run_dir": path})
        same_run(resume(path, splits=splits).path, whole)


class ScaledHead(nn.Module):
    """A head whose directions stay and whose lengths learn."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.directions = head
        self.lengths = nn.Parameter(torch.rand(4))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.directions(features) * self.lengths
        return scores


@pytest.fixture
def rebuilding(register: Callable[..., None]) -> str:
    """The name of a method whose second stage puts other parts into the network."""

    def scale_head(net: nn.Module) -> None:
        net.head = ScaledHead(net.head)

    def rebuilding(problem: Problem) -> Method:
        second = Stage(Classify(), name="scale", share=0.5, trainable="head.lengths", reshape=scale_head)
        return Method(stages=(Stage(Classify(), share=0.5), second), label="rebuilding")

    register("rebuilding", rebuilding)
    return "rebuilding"


def test_a_stage_may_rebuild_the_network(
    rebuilding: str,
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    stop_after: Callable[[int], None],
    same_run: Same,
) -> None:
    settings = {**run_settings, "method": rebuilding, "epochs": 4}
    whole = fit(splits, **settings)
    assert "head.lengths" in whole.net.state_dict()
    for step in (6, 8, 11):
        path = tmp_path / f"step{step}"
        stop_after(step)
        with pytest.raises(Stopped):
            fit(splits, **{**settings, "run_dir": path})
        stop_after(0)
        same_run(resume(path, splits=splits).path, whole.path)


def test_a_rebuilt_network_is_evaluated_again(rebuilding: str, splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "method": rebuilding})
    assert evaluate(run.path, splits=splits) == run.metrics


def test_nothing_of_the_finished_network_stays_frozen(splits: Splits, run_settings: dict[str, Any]) -> None:
    run = fit(splits, **{**run_settings, "method": "crt"})
    assert all(parameter.requires_grad for parameter in run.net.parameters())


def test_a_method_may_finish_the_network(
    register: Callable[..., None],
    splits: Splits,
    run_settings: dict[str, Any],
    tmp_path: Path,
    stop_after: Callable[[int], None],
    same_run: Same,
) -> None:
    judged: list[float | None] = []

    def one_class_only(net: nn.Module, judge: Callable[[], float] | None) -> dict[str, Any]:
        judged.append(judge() if judge else None)
        with torch.no_grad():
            net.head.bias += torch.tensor([0.0, 0.0, 0.0, 1e6])
        judged.append(judge() if judge else None)
        return {"chosen": 3}

    def finishing(problem: Problem) -> Method:
        return Method(stages=(Stage(Classify()),), label="finishing", finish=one_class_only)

    register("finishing", finishing)
    settings = {**run_settings, "method": "finishing"}
    run = fit(splits, **settings)
    assert run.metrics.recall == [0.0, 0.0, 0.0, 1.0]
    assert run.record.curves.test_recall[-1] == [0.0, 0.0, 0.0, 1.0]
    assert run.record.method.finish == {"chosen": 3}
    assert judged == [None, None]
    assert evaluate(run.path, splits=splits) == run.metrics
    selections = fit(splits, **{**settings, "run_dir": tmp_path / "held out", "hold_out": 1}).record.selections
    assert judged[3] == 0.25, "the judge sees the network as it is"
    assert selections.held_out.metrics == selections.oracle.metrics == selections.last.metrics
    stop_after(7)
    with pytest.raises(Stopped):
        fit(splits, **{**settings, "run_dir": tmp_path / "stopped"})
    stop_after(0)
    same_run(resume(tmp_path / "stopped", splits=splits).path, run.path)


@pytest.mark.parametrize(
    "bad",
    [
        lambda losses: losses / 0,
        # Its derivative at 0 is infinite, and nothing times that is no number.
        lambda losses: losses + (0 * losses).sqrt(),
    ],
)
def test_the_learning_rate_is_not_the_first_to_be_blamed_for_the_first_step(
    bad: Callable[[torch.Tensor], torch.Tensor],
    register: Callable[..., None],
    splits: Splits,
    run_settings: dict[str, Any],
) -> None:
    class Bad(nn.Module):
        def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return bad(nn.functional.cross_entropy(scores, labels, reduction="none"))

    register("bad", lambda problem: Method((Stage(Classify(loss=Bad())),), "bad"))
    advice = "It was the first step: look at the loss and the class weights of the method, or try a lower"
    with pytest.raises(Diverged, match=f"in epoch 1, step 1, on training.*{advice}") as raised:
        fit(splits, **{**run_settings, "method": "bad"})
    assert "--" not in str(raised.value), "not every command has the same options"


def of_shares(*shares: float) -> Method:
    return Method(stages=tuple(Stage(Classify(), share=share) for share in shares), label="")


@pytest.mark.parametrize(
    ("shares", "epochs", "expected"),
    [((1.0,), 7, [7]), ((0.5, 0.5), 4, [2, 2]), ((0.9, 0.1), 3, [2, 1]), ((0.8, 0.1, 0.1), 10, [8, 1, 1])],
)
def test_epochs_are_shared_out(shares: tuple[float, ...], epochs: int, expected: list[int]) -> None:
    assert stage_epochs(of_shares(*shares), epochs) == expected


@pytest.mark.parametrize(
    ("shares", "epochs"),
    [
        ((0.5, 0.5), 2),
        ((0.5, 0.5), 3),
        pytest.param((0.1, 0.9), 2),
        pytest.param((0.2, 0.4, 0.4), 4),
    ],
)
def test_every_stage_has_an_epoch(shares: tuple[float, ...], epochs: int) -> None:
    lengths = stage_epochs(of_shares(*shares), epochs)
    assert sum(lengths) == epochs
    assert min(lengths) >= 1


@pytest.mark.parametrize(
    ("returned", "told"),
    [(lambda scores: None, "NoneType"), (lambda scores: scores, r"the shape \(\d+, \d+\)")],
)
def test_an_objective_that_returns_no_number(
    returned: Callable[[torch.Tensor], Any],
    told: str,
    register: Callable[..., None],
    splits: Splits,
    run_settings: dict[str, Any],
) -> None:
    class Unsaid(Objective):
        def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Any:
            return returned(net(batch.x))

    register("unsaid", lambda problem: Method((Stage(Unsaid()),), "unsaid"))
    message = (
        rf"the objective Unsaid \(test_training.py\) returns {told}, but the one number is needed that is minimised"
    )
    with pytest.raises(ConfigError, match=message):
        fit(splits, **{**run_settings, "method": "unsaid"})


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.5, 0.1), "shares 0.5 and 0.1 of the epochs received, which add up to 0.6; give each its part, above 0"),
        ((1.0, 1.0), "shares 1 and 1 of the epochs received, which add up to 2"),
        ((1.5, -0.5), "shares 1.5 and -0.5 of the epochs received; give each its part, above 0"),
        ((1.0, 0.0), "shares 1 and 0 of the epochs received; give each"),
        ((0.5, float("nan")), "shares 0.5 and nan of the epochs received; give each"),
        ((0.5,), "shares 0.5 of the epochs received, which add up to 0.5"),
    ],
)
def test_shares_that_are_not_all_of_the_epochs(shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=f"stages with the {re.escape(message)}"):
        stage_epochs(of_shares(*shares), 20)


@pytest.mark.parametrize("change", ["augment", "epochs", "net", "flip", "padding", "mean", "crop", "name", "lrr"])
def test_a_stage_cannot_change_what_is_the_same_in_all(change: str) -> None:
    recipe = recipe_for("digits")
    changes = {change: getattr(recipe, change, 1)}
    share = "; its part of the epochs is its share" * (change == "epochs")
    with pytest.raises(
        ConfigError,
        match=f"'{change}' received in the recipe of the stage 'head', where it changes nothing{share}; a stage can "
        "change batch_size, lr, momentum, nesterov, weight_decay, schedule, milestones, decay, warmup_epochs$",
    ):
        Stage(Classify(), name="head", recipe=changes).changed(recipe)


def test_too_few_epochs_for_the_stages(two_stage: str, splits: Splits, run_settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="1 epoch received for 2 stages"):
        fit(splits, **{**run_settings, "method": two_stage, "epochs": 1})
