from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from procrustean import fit
from procrustean.data import load_source
from procrustean.records import RunSpec, group_results, load_result
from procrustean.records.groups import Group
from procrustean.report.mistakes import Confusion, ExampleFinder, picture, summed_confusion, worst_confusions
from procrustean.runs import load_run

Save = Callable[..., Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        fit(
            "digits",
            imbalance="step",
            rho=20,
            method="erm",
            epochs=2,
            seed=seed,
            run_dir=folder / str(seed),
            device="cpu",
        )
    return [folder / "0", folder / "1"]


def pixels_of(uri: str) -> np.ndarray:
    head, _, content = uri.partition(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        return np.asarray(image)


def group_of(runs: list[Path]) -> Group:
    (group,) = group_results(load_result(run) for run in runs)
    return group


def worst(group: Group, number: int) -> list[Confusion]:
    matrix = summed_confusion(group)
    assert matrix is not None
    return worst_confusions(matrix, number)


def test_pictures_are_of_images_that_the_network_confuses(runs: list[Path]) -> None:
    group = group_of(runs[:1])
    found = ExampleFinder(3).find(group, worst(group, 4))
    assert found.reason == ""
    assert found.runs == ("0",)
    prepared, net = load_run(runs[0])
    test, (mean, std) = prepared.data.test, prepared.recipe.normalisation
    matrix = summed_confusion(group)
    assert matrix is not None
    for (true, predicted), pictures in found.pictures.items():
        assert len(pictures) == min(3, matrix[true, predicted])
        for uri in pictures:
            pixels = pixels_of(uri)
            (at,) = np.flatnonzero((test.images[:, :, :, 0] == pixels).all(axis=(1, 2)))
            assert test.labels[at] == true
            x = (torch.from_numpy(test.images[at : at + 1]) / 255 - torch.tensor(mean)) / torch.tensor(std)
            with torch.no_grad():
                assert int(net(x.permute(0, 3, 1, 2)).argmax()) == predicted


def test_other_repeats_help_out_and_no_image_comes_twice(runs: list[Path]) -> None:
    group = group_of(runs)
    pairs = worst(group, 30)
    found = ExampleFinder(40).find(group, pairs)
    assert found.runs == ("0", "1")
    alone = ExampleFinder(40).find(group_of(runs[:1]), pairs)
    assert sum(map(len, found.pictures.values())) > sum(map(len, alone.pictures.values()))
    for pictures in found.pictures.values():
        assert len(set(pictures)) == len(pictures)


def test_a_run_of_another_kind_of_machine_is_used_too(runs: list[Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    begun = json.loads((run / "config.json").read_text())
    begun["config"] |= {"device": "cuda", "engine": "captured", "kernels": "on"}
    begun["identity"]["precision"] = "bf16"
    (run / "config.json").write_text(json.dumps(begun))
    group = group_of([run])
    assert any(ExampleFinder(2).find(group, worst(group, 2)).pictures.values())


def trained_on(run: Path, source: str) -> None:
    """Let a run say that it was trained on another source."""
    begun = json.loads((run / "config.json").read_text())
    begun["config"]["source"] = source
    begun["hash"] = RunSpec.from_json(begun["config"]).hash
    begun.pop("source_path", None)
    (run / "config.json").write_text(json.dumps(begun))


def test_what_is_missing_is_said(runs: list[Path], saved: Save, tmp_path: Path) -> None:
    finder = ExampleFinder(2)
    assert "network is not beside" in finder.find(group_of([saved()]), []).reason
    run = tmp_path / "moved"
    shutil.copytree(runs[0], run)
    trained_on(run, str(tmp_path / "gone.npz"))
    group = group_of([run])
    reason = finder.find(group, worst(group, 2)).reason
    assert "cannot be used" in reason
    assert "gone.npz" in reason


def test_images_are_found_and_left_out_as_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    for split, name in product(("train", "test"), ("cats", "dogs")):
        folder = tmp_path / "pets" / split / name
        folder.mkdir(parents=True)
        for number in range(8):
            Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / f"{number}.png")
    (tmp_path / "pets" / "train" / "cats" / "broken.png").write_bytes(b"no image")
    monkeypatch.chdir(tmp_path)
    settings = {"net": "small", "epochs": 1, "image_size": 8, "device": "cpu", "on_bad_image": "skip"}
    fit("pets", method="erm", run_dir=tmp_path / "run", **settings)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    group = group_of([tmp_path / "run"])
    found = ExampleFinder(2).find(group, worst(group, 2))
    assert found.reason == ""
    assert any(found.pictures.values())


def test_nothing_is_downloaded(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    trained_on(run, "cifar10")
    group = group_of([run])
    assert "cannot be used" in ExampleFinder(2).find(group, worst(group, 2)).reason
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_data_set_is_loaded_once(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    def counted(source: str, **options: object) -> object:
        loads.append(source)
        return load_source(source)

    monkeypatch.setattr("procrustean.data.sources.load_source", counted)
    finder = ExampleFinder(40)
    for chosen in (runs[:1], runs[1:]):
        finder.find(group_of(chosen), worst(group_of(chosen), 2))
    assert loads == ["digits"]


def test_large_pictures_are_made_smaller() -> None:
    assert pixels_of(picture(np.zeros((400, 200, 3), np.uint8))).shape == (96, 48, 3)
    small = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    assert (pixels_of(picture(small)) == small).all()
