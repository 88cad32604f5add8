from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean import fit
from procrustean.balance import effective_number
from procrustean.balance.weights import FixedWeights
from procrustean.base.progress import Reporter
from procrustean.data import ImageSet, Splits
from procrustean.engine.prepared_run import Prepared
from procrustean.methods import make as methods
from procrustean.records import RunSpec
from procrustean.runs import auto_method as auto
from procrustean.runs import fit_many
from procrustean.runs.lint import lint
from procrustean.runs.method_advice import MethodChoice
from procrustean.runs.preparing import prepare


def pictures(counts: tuple[int, ...], seed: int = 0) -> ImageSet:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    names = tuple(f"c{n}" for n in range(len(counts)))
    return ImageSet(random.integers(0, 256, (len(labels), 8, 8, 3), np.uint8), labels, names)


def prepared(**settings: Any) -> Prepared:
    counts = settings.pop("counts", (60, 30))
    splits = Splits("mine", pictures(counts), pictures(settings.pop("tested", (6, 6)), 1))
    base = {"method": "erm", "net": "small", "epochs": 10, "batch_size": 16, "lr": 0.025, "device": "cpu"}
    return prepare(RunSpec("mine", **{**base, **settings}), splits=splits)


def test_ordinary_settings_pass() -> None:
    for method in methods.METHODS:
        if method not in ("m2m", "bbn", "oltr", "meta_weight", "domain_adaptation"):
            assert lint(prepared(method=method, epochs=30)) == [], method


def test_the_schedule_of_another_method() -> None:
    """Only of the paper's data sets, where the methods were published, and only if nobody chose it."""

    def on_cifar10(**settings: Any) -> list[str]:
        splits = Splits("cifar10", pictures((60, 30)), pictures((6, 6), 1))
        config = RunSpec("cifar10", net="small", batch_size=16, lr=0.0125, device="cpu", **settings)
        return lint(prepare(config, splits=splits))

    (found,) = on_cifar10(method="ldam", drw=True)
    assert found.startswith("LDAM-DRW trains by the MFW paper's schedule (200 epochs, cosine), not by the one it was")
    assert "published with (200 epochs, steps)" in found
    assert "--recipe own" in found
    for method in ("erm", "mfw"):
        assert on_cifar10(method=method) == []
    for recipe in ("own", "paper", "cifar-steps"):
        assert on_cifar10(method="ldam", recipe=recipe) == []


def test_sampler_and_weights() -> None:
    run = prepared(method="erm", drw=True)
    stage = replace(run.method.stages[0], sampler=lambda labels, count, stream: np.arange(count))
    (found,) = lint(replace(run, method=replace(run.method, stages=(stage,))))
    assert "its sampler shows small classes more often and its class weights count small classes more" in found


def test_a_loss_that_corrects_and_weights() -> None:
    run = prepared(method="balanced_softmax")
    run.method.stages[0].objective.weight = FixedWeights(effective_number([60, 30]))
    (found,) = lint(run)
    assert "class weights count small classes more and its loss shifts the scores" in found


def test_a_class_that_is_hardly_or_not_tested_is_told_of_once() -> None:
    run = prepared(counts=(60, 30, 30), tested=(30, 29, 0))
    assert run.data_text().endswith("59 test images; fewer than 30 test images of c1: their results say little")
    assert lint(run) == ["there are no test images of c2: the results say nothing about them"]


def test_the_line_about_the_recipe_has_the_epochs_of_the_stages() -> None:
    assert prepared(method="erm", epochs=30).recipe_text().endswith("random flips")
    assert (
        prepared(method="crt", epochs=30)
        .recipe_text()
        .endswith("; in stages: features 26 epochs, classifier 4 epochs; every stage begins the schedule anew")
    )


def findings(root: Path, **settings: Any) -> list[str]:
    base = {"method": "erm", "net": "small", "epochs": 10, "batch_size": 16, "lr": 0.025, "device": "cpu"}
    return lint(prepare(RunSpec(str(root), **{**base, **settings})))


@pytest.fixture
def folder(colours: Path, tmp_path: Path) -> Path:
    return shutil.copytree(colours, tmp_path / "colours")


def test_validation_equal_to_test(folder: Path) -> None:
    assert findings(folder) == []
    shutil.rmtree(folder / "val")
    shutil.copytree(folder / "test", folder / "val")
    (found,) = findings(folder)
    assert (
        "24 of 24 test images are validation images too, pixel for pixel, such as test/blue/000.png as blue and"
        in found
    )


def test_training_images_in_the_test_set(folder: Path) -> None:
    for number in range(3):
        shutil.copy(folder / "train" / "red" / f"00{number}.png", folder / "test" / "red" / f"copy{number}.png")
    (found,) = findings(folder)
    assert "3 of 27 test images are training images too, pixel for pixel" in found


def test_images_under_several_labels_are_named(folder: Path) -> None:
    shutil.copy(folder / "train" / "red" / "001.png", folder / "train" / "green" / "wrong.png")
    (found,) = findings(folder)
    assert found == (
        "images under different labels are the same, pixel for pixel: train/green/wrong.png as green, "
        "train/red/001.png as red. Look at them, keep those whose label is right; procrustean inspect names all"
    )
    for number in range(2, 6):
        shutil.copy(folder / "train" / "red" / f"00{number}.png", folder / "train" / "blue" / f"wrong{number}.png")
    (found,) = findings(folder)
    assert found.count(" as red") == 3
    assert "; and 2 more. Look at them" in found


def test_images_under_several_labels_have_the_names_of_today(folder: Path) -> None:
    wrong = folder / "train" / "green" / "wrong.png"
    shutil.copy(folder / "train" / "red" / "001.png", wrong)
    assert "train/green/wrong.png as green" in findings(folder)[0]
    wrong.rename(wrong.with_name("xenon.png"))
    assert "train/green/xenon.png as green" in findings(folder)[0]


def test_arrays_under_several_labels_are_named(folder: Path) -> None:
    sets = {"train": pictures((60, 30)), "test": pictures((6, 6), 1)}
    sets["train"].images[65] = sets["train"].images[0]
    arrays = {
        f"{split}_{part}": getattr(images, part) for split, images in sets.items() for part in ("images", "labels")
    }
    np.savez(folder / "mine.npz", **arrays)
    (found,) = findings(folder / "mine.npz")
    assert "pixel for pixel: training image 0 as 0, training image 65 as 1. Look at them" in found


def test_duplicates_that_are_held_out_together_are_no_oversampling(folder: Path) -> None:
    for split in ("val", "test"):
        shutil.rmtree(folder / split)
    for name in ("blue", "green", "red"):
        for path in list((folder / "train" / name).iterdir()):
            shutil.copy(path, path.with_name(f"again-{path.name}"))
    held_out = prepare(RunSpec(str(folder), method="erm", hold_out=0.25)).data.held_out
    assert held_out is not None
    assert len(np.unique(held_out.images, axis=0)) < len(held_out)
    assert findings(folder, hold_out=0.25) == []


def test_findings_are_said_before_training(tmp_path: Path) -> None:
    class Listener(Reporter):
        heard: list[str] = []  # noqa: RUF012

        def warn(self, text: str) -> None:
            self.heard.append(text)

    from procrustean import fit

    splits = Splits("mine", pictures((20, 10)), pictures((6, 0), 1))
    fit(
        splits,
        method="erm",
        epochs=1,
        net="small",
        device="cpu",
        run_dir=str(tmp_path / "r"),
        reporter=Listener(),
    )
    assert any(text.startswith("there are no test images of c1") for text in Listener.heard)


def test_without_progress_findings_are_warnings(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from procrustean.cli import main

    shutil.rmtree(folder / "test" / "red")
    none = "there are no test images of red: the results say nothing about them"
    with pytest.warns(UserWarning, match=none):
        fit(str(folder), method="erm", epochs=1, device="cpu", run_dir=str(tmp_path / "python"))
    command = ["train", str(folder), "--method", "erm", "--epochs", "1", "--device", "cpu", "--quiet"]
    with warnings.catch_warnings():  # which a program shows whatever was shown before it in this process
        warnings.simplefilter("default")
        assert main([*command, "--run-dir", str(tmp_path / "command")]) == 0
    assert capfd.readouterr().err == f"warning: {none}\n"


def test_evaluation_uses_no_weights(tmp_path: Path) -> None:
    """Class weights belong to the training loss: the metrics of a network do not depend on the method."""
    from procrustean.engine.evaluation import evaluate_net
    from procrustean.engine.images import ImageStore

    plain, weighted = prepared(method="erm"), prepared(method="class_balanced")
    net = plain.build_net()
    results = []
    for run in (plain, weighted):
        mean, std = run.recipe.normalisation
        images = ImageStore(run.data.test, device=run.placement.device, mean=mean, std=std)
        results.append(evaluate_net(net, images, [int(n) for n in run.data.counts], None))
    assert results[0] == results[1]


class Told(Reporter):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)


def test_a_comparison_and_a_grid_warn_too(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The validation images being the test images matters most where methods are chosen on them."""
    root = shutil.copytree(colours, tmp_path / "same")
    shutil.rmtree(root / "val")
    shutil.copytree(root / "test", root / "val")
    looked: list[int] = []
    leaking = import_module("procrustean.runs.lint")
    monkeypatch.setattr(leaking, "_FOUND", {})
    search = leaking.near_duplicates
    monkeypatch.setattr(leaking, "near_duplicates", lambda found: (looked.append(len(found)), search(found))[1])
    monkeypatch.setattr(auto, "COMPARED", [MethodChoice("erm", False)])
    warning = "24 of 24 test images are validation images too, pixel for pixel"
    told = Told()
    settings: dict[str, Any] = {"epochs": 1, "device": "cpu"}
    fit(str(root), method="auto", **settings, run_dir=str(tmp_path / "all"), minutes=5, reporter=told)
    assert sum(text.startswith(warning) for text in told.texts) == 1
    told = Told()
    base = RunSpec(str(root), method="erm", **settings)
    fit_many([replace(base, seed=seed, run_dir=tmp_path / f"{seed}") for seed in (0, 1)], reporter=told)
    assert sum(text.startswith(warning) for text in told.texts) == 1
    assert len(looked) == 1  # all of these runs have the same images
