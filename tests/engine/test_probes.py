from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from procrustean.balance import Clock
from procrustean.base import ConfigError, RunError, Stream
from procrustean.data import ImageSet, Splits
from procrustean.engine.evaluation import evaluation_batch
from procrustean.engine.images import ImageStore
from procrustean.engine.probes import Probe, Probing, chosen_per_class, default_spacing
from procrustean.engine.stored_features import kept_epochs, load_features
from procrustean.engine.training import run_to_end
from procrustean.methods import METHODS
from procrustean.methods.make import option_defaults
from procrustean.records import Result, RunSpec, curves_of
from procrustean.records.class_curves import MEASURED
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import RunRecord
from procrustean.report import diagnose_run
from procrustean.runs import FinishedRun, fit, fit_many, load_run
from procrustean.runs.train_api import Stopped, resume
from saved_states import saved_states

Same = Callable[[Path, Path], None]
StopAfter = Callable[[int], None]


def trained(splits: Splits, path: Path, tiny: dict[str, Any], **changes: Any) -> RunRecord:
    return fit(splits, **{**tiny, **changes}, run_dir=path).record


def without_probes(record: RunRecord) -> dict[str, Any]:
    kept = ("label", "data", "method", "selections", "curves", "recipe")
    return {name: getattr(record, name) for name in kept}


# They change nothing


@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_probes_is_the_run_without(
    method: str,
    splits: Splits,
    tiny: dict[str, Any],
    uninterrupted: Callable[..., FinishedRun],
    tmp_path: Path,
) -> None:
    changes = {"method": method, "drw": "drw" in option_defaults(method), "precision": "fp32", "epochs": 2}
    plain = uninterrupted(**changes)
    state = torch.get_rng_state()
    probed = trained(splits, tmp_path / "probed", {**tiny, **changes}, probe_every=1, features_at=[1])
    assert torch.equal(torch.get_rng_state(), state)
    weights = [(path / "model.safetensors").read_bytes() for path in (plain.path, tmp_path / "probed")]
    assert weights[0] == weights[1]
    assert without_probes(plain.record) == without_probes(probed)
    assert plain.record.probes is None
    curves = curves_of(Result(probed))
    assert curves.at == (1, 2)
    for name in MEASURED:
        assert getattr(curves, name).shape == (2, 4)
        assert np.isfinite(getattr(curves, name)).all(), name
    counts = np.array(probed.data.counts)
    assert (curves.classification_ratio @ counts).tolist() == pytest.approx([counts.sum()] * 2, rel=1e-4)
    assert (curves.gradient_norm > 0).all()


@pytest.mark.parametrize(
    "changes", [{"precision": "bf16"}, {"hold_out": 2, "drw": True}, {"options": {"draw": "batch"}}]
)
def test_so_in_other_settings(changes: dict[str, Any], splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = {**tiny, "method": "mfw", **changes}
    plain = trained(splits, tmp_path / "plain", settings)
    probed = trained(splits, tmp_path / "probed", settings, probe_every=2)
    assert (tmp_path / "plain/model.safetensors").read_bytes() == (tmp_path / "probed/model.safetensors").read_bytes()
    assert without_probes(plain) == without_probes(probed)
    assert curves_of(Result(probed)).gradient_norm_mixed is not None


@pytest.mark.parametrize("step", [1, 4, 5, 8, 11])
def test_a_resumed_run_has_the_same_probes(
    step: int, splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    settings = {**tiny, "method": "mfw", "probe_every": 1, "features_at": [2], "keep_weights_every": 2}
    whole = fit(splits, **settings, run_dir=tmp_path / "whole")
    stop_after(step)
    with pytest.raises(Stopped):
        fit(splits, **settings, run_dir=tmp_path / "run")
    stop_after(0)
    same_run(resume(tmp_path / "run", splits=splits).path, whole.path)
    for epoch in (2, 3):
        one, other = (load_features(path, epoch) for path in (whole.path, tmp_path / "run"))
        assert np.array_equal(one.train, other.train)
        assert np.array_equal(one.test, other.test)
    assert (whole.path / "weights-000002.safetensors").read_bytes() == (
        tmp_path / "run/weights-000002.safetensors"
    ).read_bytes()


def test_a_run_of_a_fleet_has_the_same_probes(npz: Path, tiny: dict[str, Any], tmp_path: Path, same_run: Same) -> None:
    settings = {**tiny, "source": str(npz), "method": "mfw", "probe_every": 1}
    alone = fit(RunSpec.from_json({**settings, "run_dir": tmp_path / "alone"}))
    configs = [RunSpec.from_json({**settings, "seed": seed, "run_dir": tmp_path / f"fleet{seed}"}) for seed in (0, 1)]
    outcomes = fit_many(configs, width=2)
    assert [outcome.error for outcome in outcomes] == [None, None]
    same_run(outcomes[0].path, alone.path)


# What they measure


@pytest.fixture(scope="module")
def measured(splits: Splits, tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Splits, Path]:
    path = tmp_path_factory.mktemp("measured") / "run"
    fit(splits, **{**tiny, "method": "mfw", "epochs": 2, "probe_every": 1}, run_dir=path)
    return splits, path


def test_recalls_and_ratios_are_those_of_the_network(measured: tuple[Splits, Path]) -> None:
    splits, path = measured
    prepared, net = load_run(path, splits=splits)
    probes = json.loads((path / "result.json").read_text())["probes"]
    for name, images in (("train_recall", prepared.data.train), ("test_recall", prepared.data.test)):
        predicted = _scores(net, images, prepared).argmax(1).tolist()
        for label in range(4):
            mine = [p for p, y in zip(predicted, images.labels, strict=True) if y == label]
            assert probes[name][-1][label] == pytest.approx(mine.count(label) / len(mine), rel=1e-5)
    predicted = _scores(net, prepared.data.train, prepared).argmax(1).tolist()
    counts = prepared.data.counts
    expected = [predicted.count(label) / counts[label] for label in range(4)]
    assert probes["classification_ratio"][-1] == pytest.approx(expected, rel=1e-5)


def test_unmixed_gradients_are_those_of_each_image_alone(measured: tuple[Splits, Path]) -> None:
    splits, path = measured
    prepared, net = load_run(path, splits=splits)
    probes = json.loads((path / "result.json").read_text())["probes"]
    norms: dict[int, list[float]] = {label: [] for label in range(4)}
    for x, y in zip(_pixels(prepared.data.train, prepared), prepared.data.train.labels, strict=True):
        z = _first_part(net, x[None])
        loss = F.cross_entropy(_second_part(net, z), torch.tensor([y]))
        norms[int(y)].append(float(torch.autograd.grad(loss, z)[0].norm()))
    assert probes["layer"] == ["group2", "group2"]
    expected = [sum(norms[label]) / len(norms[label]) for label in range(4)]
    assert probes["gradient_norm"][-1] == pytest.approx(expected, rel=1e-4)


def test_mixed_gradients_have_partners_drawn_as_in_training(measured: tuple[Splits, Path]) -> None:
    splits, path = measured
    prepared, net = load_run(path, splits=splits)
    probes = json.loads((path / "result.json").read_text())["probes"]
    pixels, labels = _pixels(prepared.data.train, prepared), torch.from_numpy(prepared.data.train.labels)
    chosen = chosen_per_class(prepared.data.train.labels, 4, 256, seed=0)
    companions = Stream(0, "probe.companions", 0).integers(len(labels), len(chosen))
    u = torch.from_numpy(Stream(0, "probe.u", "mfw", 0).uniforms(2 * len(chosen)))
    mfw = prepared.method.stages[0].objective.mixer.mfw
    shares = mfw.share(labels[np.stack([chosen, companions], 1).reshape(-1)], u)
    norms: dict[int, list[float]] = {label: [] for label in range(4)}
    with torch.no_grad():
        features = _first_part(net, pixels).detach()
    for i, (image, companion) in enumerate(zip(chosen, companions, strict=True)):
        z = features[image].clone().requires_grad_()
        before = companions[i - 1]  # the companion that the image is mixed into
        own = torch.lerp(z, features[companion], shares[2 * i])
        other = torch.lerp(features[before], z, shares[2 * i - 1])
        loss = F.cross_entropy(_second_part(net, own[None]), labels[image][None])
        loss = loss + F.cross_entropy(_second_part(net, other[None]), labels[before][None])
        norms[int(labels[image])].append(float(torch.autograd.grad(loss, z)[0].norm()))
    expected = [sum(norms[label]) / len(norms[label]) for label in range(4)]
    assert probes["gradient_norm_mixed"][-1] == pytest.approx(expected, rel=1e-4)
    assert probes["gradient_norm_mixed"][-1] != probes["gradient_norm"][-1]


def test_gradients_are_mixed_only_as_long_as_training_mixes(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "method": "mfw", "drw": True, "options": {"keep_mixing": False}, "epochs": 5}
    probes = trained(splits, tmp_path / "run", settings, probe_every=1).probes
    mixed, plain = probes.gradient_norm_mixed, probes.gradient_norm
    assert all(mixed[epoch] != pytest.approx(plain[epoch], rel=1e-3) for epoch in range(4))
    assert mixed[4] == pytest.approx(plain[4], rel=1e-4)  # the weights have set in


def test_the_deviation_of_the_smallest_class_has_a_closed_form(measured: tuple[Splits, Path]) -> None:
    splits, path = measured
    prepared, net = load_run(path, splits=splits)
    probes = json.loads((path / "result.json").read_text())["probes"]
    means = []
    for images in (prepared.data.train, prepared.data.test):
        with torch.no_grad():
            features = F.normalize(net.backbone(_pixels(images, prepared)), dim=1)
        means.append(features[torch.from_numpy(images.labels) == 3].mean(0))
    assert probes["feature_deviation"][-1][3] == pytest.approx(float((means[0] - means[1]).norm()), rel=1e-4)


def test_kept_features_are_those_of_the_network(measured: tuple[Splits, Path]) -> None:
    splits, path = measured
    prepared, net = load_run(path, splits=splits)
    assert kept_epochs(path) == [2]
    kept = load_features(path)
    with torch.no_grad():
        features = net.backbone(_pixels(prepared.data.test, prepared)).numpy()
    assert np.allclose(kept.test, features, rtol=2e-3, atol=2e-3)  # float16
    assert np.array_equal(kept.test_labels, prepared.data.test.labels)
    assert kept.head_weight is not None
    assert np.array_equal(kept.head_weight, net.head.weight.detach().numpy())


def _store(images: ImageSet, prepared: Any) -> ImageStore:
    mean, std = prepared.recipe.normalisation
    return ImageStore(images, device=torch.device("cpu"), mean=mean, std=std)


def _pixels(images: ImageSet, prepared: Any) -> Tensor:
    return _store(images, prepared).clean_at(slice(0, len(images)))


def _scores(net: Any, images: ImageSet, prepared: Any) -> Tensor:
    with torch.no_grad():
        return net(_pixels(images, prepared))


def _first_part(net: Any, x: Tensor) -> Tensor:
    backbone = net.backbone
    return backbone.group2(backbone.group1(backbone.input(x))).detach().requires_grad_()


def _second_part(net: Any, z: Tensor) -> Tensor:
    return net.head(net.backbone.group3(z).mean((2, 3)))


def test_a_finishing_method_is_measured_as_it_predicts(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    record = trained(splits, tmp_path / "run", tiny, method="tau_norm", options={"tau": 2.0}, probe_every=1)
    recall = record.selections.last.metrics.recall
    assert record.probes.test_recall[-1] == pytest.approx(recall, rel=1e-5)
    plain = trained(splits, tmp_path / "erm", tiny, probe_every=1)
    assert plain.probes.feature_deviation[-1] == record.probes.feature_deviation[-1]


# When


def test_the_default_spacing_is_a_function_of_the_images() -> None:
    assert default_spacing([5000] * 10, 0) < default_spacing([5000] * 10, 50_000)
    # Ten images per class: gradients are computed for all of them.
    assert default_spacing([10] * 10, 100) == math.ceil(10 * (0.5 * 2 + 2.1))


def test_epochs_that_are_due(tmp_path: Path) -> None:
    probing = Probing(None, every=3, features_at=(2,), directory=RunFolder(tmp_path))  # type: ignore[arg-type]
    assert [epoch + 1 for epoch in range(8) if probing.due(epoch, last=epoch == 7)] == [2, 3, 6, 8]


def test_at_most_so_many_images_of_each_class_and_always_the_same() -> None:
    labels = np.repeat([0, 1, 2], [50, 4, 9])
    chosen = chosen_per_class(labels, 3, 7, seed=1)
    assert np.bincount(labels[chosen]).tolist() == [7, 4, 7]
    assert len(set(chosen.tolist())) == 18
    assert np.array_equal(chosen, chosen_per_class(labels, 3, 7, seed=1))
    assert not np.array_equal(np.sort(chosen), np.sort(chosen_per_class(labels, 3, 7, seed=2)))
    assert (np.diff(labels[chosen]) < 0).any()  # mixed: a share drawn per batch must not be one class's


def test_asking_for_probes_in_any_way_turns_them_on(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    for number, changes in enumerate(({"probes": True}, {"probe_every": 2}, {"features_at": [1]})):
        record = trained(splits, tmp_path / str(number), tiny, **changes)
        assert record.probes.epochs[-1] == 2
    assert kept_epochs(tmp_path / "2") == [1, 3]


def test_features_of_epochs_beyond_the_run_are_refused(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"features_at = \[7\] received, but the run has 3 epochs"):
        fit(splits, **tiny, features_at=[7], run_dir=tmp_path / "run")
    with pytest.raises(ConfigError, match="epochs count from 1"):
        fit(splits, **tiny, features_at=[0], run_dir=tmp_path / "run")
    with pytest.raises(ConfigError, match="features_at = 7 received; it has to be a list of whole numbers"):
        fit(splits, **tiny, features_at=7, run_dir=tmp_path / "run")


def test_settings_that_are_not_used_leave_the_names_of_runs_alone() -> None:
    erm = RunSpec("cifar10", imbalance="long_tailed", rho=100, method="erm", evaluate_every=4)
    assert erm.slug == "cifar10-long_tailed100-erm-seed0-7c9e42d36cdc"  # a record in results/
    used = {"probes": True, "probe_every": 3, "features_at": (2,), "keep_weights_every": 1, "classes": ("a", "b")}
    hashes = {RunSpec("digits", **{name: value}).hash for name, value in used.items()}  # type: ignore[arg-type]
    assert len(hashes | {RunSpec("digits").hash}) == 6


@pytest.mark.alone
def test_probes_cost_a_tenth_of_the_training_at_most(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    counts = (60, 30, 16, 8)

    def noise(sizes: tuple[int, ...]) -> ImageSet:
        labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
        return ImageSet(random.randint(0, 256, (len(labels), 32, 32, 3)).astype(np.uint8), labels, tuple("abcd"))

    splits = Splits("noise", noise(counts), noise((16,) * 4))
    fit(splits, net="resnet20", epochs=1, method="mfw", device="cpu", run_dir=tmp_path / "warm")
    result = fit(splits, net="resnet20", epochs=4, method="mfw", device="cpu", probe_every=1, run_dir=tmp_path / "run")
    seconds = result.record.seconds
    assert seconds["probe"] <= 0.1 * default_spacing(counts, 64) * seconds["train"]


def test_large_images_are_probed_in_batches_as_small_as_those_they_are_tested_in() -> None:
    seen: list[int] = []

    class Net(torch.nn.Module):
        head = torch.nn.Linear(3, 4)

        def features_of(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return x.mean((2, 3))

    images = ImageSet(np.zeros((30, 224, 224, 3), np.uint8), np.arange(30) % 4, tuple("abcd"))
    store = ImageStore(images, device=torch.device("cpu"), mean=(0.5,) * 3, std=(0.2,) * 3)
    probe = Probe(train=store, test=store, classes=4, seed=0, low_precision=None)
    run_to_end(probe.features(Net(), store))
    assert seen == [evaluation_batch(store), 10] == [20, 10]


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("net", ["small", "resnet20", "small-2d"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_they_change_nothing_and_find_what_a_cpu_finds(
    net: str, precision: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "method": "mfw", "device": "cuda", "net": net, "precision": precision}
    trained(splits, tmp_path / "plain", settings)
    probed = trained(splits, tmp_path / "probed", settings, probe_every=1, keep_weights_every=3)
    assert (tmp_path / "plain/model.safetensors").read_bytes() == (tmp_path / "probed/model.safetensors").read_bytes()
    if precision == "fp32":
        prepared, network = load_run(tmp_path / "probed", splits=splits)
        train, test = (_store(images, prepared) for images in (prepared.data.train, prepared.data.test))
        probe = Probe(train=train, test=test, classes=4, seed=0, low_precision=None)
        stage = prepared.method.stages[0]
        stage.objective.cpu()
        found = run_to_end(probe.measure(network.cpu(), stage, Clock.at(0, 1, torch.device("cpu")))).values
        for name in ("train_recall", "classification_ratio", "gradient_norm", "gradient_norm_mixed"):
            assert getattr(found, name) == pytest.approx(getattr(probed.probes, name)[-1], rel=0.02, abs=1e-4), name


# Afterwards


ENDING = {"drw": True, "options": {"keep_mixing": False}}


@pytest.mark.parametrize(("method", "more"), [("mfw", {}), ("mfw", ENDING), ("crt", {}), ("m2m", {})])
def test_kept_weights_give_what_was_measured_on_the_way(
    method: str, more: dict[str, Any], splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "method": method, "epochs": 6, **more}
    probed = trained(splits, tmp_path / "probed", settings, probe_every=1).probes
    trained(splits, tmp_path / "kept", settings, keep_weights_every=1)
    said: list[str] = []
    diagnosis = diagnose_run(tmp_path / "kept", splits=splits, say=said.append)
    again = diagnosis.probes
    assert again.epochs == probed.epochs == list(range(6))
    for name in (*MEASURED, "gradient_norm_mixed"):
        for mine, theirs in zip(getattr(again, name), getattr(probed, name), strict=True):
            assert mine == (None if theirs is None else pytest.approx(theirs, rel=2e-3, abs=1e-5)), name
    assert diagnosis.measured_now[3] == "weights-000003.safetensors"
    assert diagnosis.measured_now[6] == "model.safetensors"
    assert "measuring weights-000001.safetensors (epoch 1)" in said


def test_measured_epochs_are_not_measured_again(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    record = trained(splits, tmp_path / "run", tiny, probe_every=2)
    diagnosis = diagnose_run(tmp_path / "run")  # neither images nor weights are needed: none are given
    assert diagnosis.probes == record.probes
    assert diagnosis.measured_now == {}


def test_a_plain_run_is_measured_at_its_last_and_its_chosen_weights(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    record = trained(splits, tmp_path / "run", {**tiny, "epochs": 8}, hold_out=2)
    chosen = record.selections.held_out.epoch + 1
    diagnosis = diagnose_run(tmp_path / "run", splits=splits)
    names = {chosen: "held_out.safetensors", 8: "model.safetensors"}
    assert diagnosis.measured_now == names
    recall = record.selections.last.metrics.recall
    assert diagnosis.curves.test_recall[-1].tolist() == pytest.approx(recall, rel=1e-5)


def test_an_unfinished_run_is_measured_at_its_checkpoints(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    settings = {**tiny, "method": "mfw", "checkpoint_every": 0.0}
    stop_after(9)
    with pytest.raises(Stopped):
        fit(splits, **settings, run_dir=tmp_path / "run")
    stop_after(0)
    diagnosis = diagnose_run(tmp_path / "run", splits=splits)
    # Steps 8 and 9 of four per epoch: the end of the second epoch, and one step of the third.
    assert diagnosis.curves.at == (2, 3)
    assert diagnosis.curves.epochs == 3
    assert list(diagnosis.measured_now.values()) == [path.name for path in saved_states(tmp_path / "run")]
    whole = trained(splits, tmp_path / "whole", settings, probe_every=2).probes
    assert diagnosis.probes.train_recall[0] == whole.train_recall[0]


def test_what_holds_nothing_yet_is_refused(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    with pytest.raises(RunError, match="not a run directory"):
        diagnose_run(tmp_path)
    stop_after(1)
    with pytest.raises(Stopped):
        fit(splits, **tiny, run_dir=tmp_path / "run")
    for path in (tmp_path / "run").glob("checkpoint*"):
        path.unlink()
    with pytest.raises(RunError, match="neither measurements nor weights"):
        diagnose_run(tmp_path / "run", splits=splits)


def test_a_class_without_test_images_has_gaps(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    seen = Splits("stripes", splits.train, splits.test.subset(np.flatnonzero(splits.test.labels != 3)))
    probes = trained(seen, tmp_path / "run", tiny, probes=True).probes
    assert probes.test_recall[0][3] is None
    assert probes.feature_deviation[0][3] is None
    assert None not in probes.train_recall[0]
    assert diagnose_run(tmp_path / "run").findings


def test_files_that_are_not_the_runs_own(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    path = fit(splits, **tiny, run_dir=tmp_path / "run").path
    for name in ("weights-x.safetensors", "features-x.npz"):
        (path / name).write_bytes(b"")
    assert kept_epochs(path) == []
    assert diagnose_run(path, splits=splits).findings
    (path / "weights-000099.safetensors").write_bytes((path / "model.safetensors").read_bytes())
    with pytest.raises(RunError, match=r"weights-000099\.safetensors is named after epoch 99, but the run has 3"):
        diagnose_run(path, splits=splits)
