"""The speed benchmark measures what it says, on the CPU, in a few steps."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import measuring
import method_costs
import speed
import whole_runs
from plain_loop import PerImageDataset, measure_peer
from procrustean.data import ImageSet, Splits
from procrustean.nets import NETS
from procrustean.runs.cost import multiply_adds


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Splits]:
    """The smallest network and few images in place of ResNets on CIFAR."""
    for name in ("resnet32", "resnet20"):
        monkeypatch.setitem(NETS, name, NETS["small"])
    whole = measuring.synthetic_cifar()

    def some(images: ImageSet, each: int) -> ImageSet:
        of_class = [np.flatnonzero(images.labels == label)[:each] for label in range(len(images.classes))]
        return images.subset(np.sort(np.concatenate(of_class)))

    splits = Splits("cifar10", some(whole.test, 200), some(whole.test, 2))
    for script in (speed, method_costs, whole_runs):
        monkeypatch.setattr(script, "synthetic_cifar", lambda: splits)
    yield splits
    multiply_adds.cache_clear()  # of the networks that had the name of others


def test_synthetic_images_have_the_shape_of_cifar() -> None:
    splits = measuring.synthetic_cifar()
    assert splits.train.images.shape == (50_000, 32, 32, 3)
    assert splits.train.counts.tolist() == [5000] * 10


def test_the_peers_augmentation_crops_from_a_black_border(tiny: Splits) -> None:
    torch.manual_seed(0)
    image, label = PerImageDataset(tiny.train, (0.0,) * 3, (1.0,) * 3)[17]
    assert image.shape == (3, 32, 32)
    assert label == tiny.train.labels[17]
    original = torch.from_numpy(tiny.train.images[17]).permute(2, 0, 1).float() / 255
    padded = torch.nn.functional.pad(original, (4, 4, 4, 4))
    crops = [padded[:, t : t + 32, c : c + 32] for t in range(9) for c in range(9)]
    assert any(torch.equal(image, crop) or torch.equal(image, crop.flip(2)) for crop in crops)


def test_the_peer_loop_trains(tiny: Splits) -> None:
    found = measure_peer(
        tiny.train, device=torch.device("cpu"), workers=0, steps=2, batch_size=16, mean=(0.5,) * 3, std=(0.5,) * 3
    )
    assert found > 0


@pytest.mark.slow
def test_the_script_keeps_every_measurement(
    tiny: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "deep" / "speed.json"
    arguments = ["--device", "cpu", "--steps", "1", "--repeats", "2", "--workers", "0"]
    assert measuring.main(speed.Speed, [*arguments, "--output", str(output)]) == 0
    result = json.loads(output.read_text())
    assert [(row["method"], row["variant"]) for row in result["single"]] == [
        ("erm", "float32"),
        ("mfw", "float32"),
        ("erm", "automatic precision"),
        ("mfw", "automatic precision"),
    ]
    for row in result["single"]:
        assert len(row["ms_per_step"]) == 2
        assert row["ratio_to_peer"] == pytest.approx(row["images_per_second"] / result["peer"]["best"])
    assert "plain loop" in capsys.readouterr().out

    def cut_short(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "_single", cut_short)
    with pytest.raises(KeyboardInterrupt):
        measuring.main(speed.Speed, [*arguments, "--output", str(tmp_path / "cut.json")])
    assert json.loads((tmp_path / "cut.json").read_text())["peer"]["best"] > 0


@pytest.mark.slow
def test_the_cost_of_a_method_covers_all_its_stages_and_phases(
    tiny: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "costs.json"
    found = method_costs.bench_methods(
        device="cpu",
        methods=("crt", "domain_adaptation"),
        steps=1,
        repeats=1,
        keep=lambda r: output.write_text(json.dumps(r)),
    )
    assert json.loads(output.read_text()) == found
    erm, crt, adapted = found["methods"]
    assert erm["relative_to_erm"] == 1
    assert [part["stage"] for part in crt["parts"]] == ["features", "classifier"]
    assert [(part["phase"], part["share"]) for part in adapted["parts"]] == [(0, 0.8), (1, pytest.approx(0.2))]
    for row in found["methods"]:
        whole = sum(part["share"] * part["microseconds_per_image"] for part in row["parts"])
        assert row["microseconds_per_image"] == pytest.approx(whole)


@pytest.mark.slow
def test_whole_runs_are_timed_one_by_one_and_as_a_fleet(tiny: Splits) -> None:
    kept: list[dict[str, Any]] = []
    found = whole_runs.bench_runs(device="cpu", runs=2, epochs=1, keep=lambda result: kept.append(dict(result)))
    assert kept[-1] == found
    assert found["runs"] == 2
    assert found["ratio"] == pytest.approx(found["seconds"]["one_by_one"] / found["seconds"]["fleet"])


@pytest.mark.parametrize("before", [None, "/kernels"])
def test_kernels_are_compiled_anew(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(speed.KERNEL_CACHE, raising=False)
    if before is not None:
        monkeypatch.setenv(speed.KERNEL_CACHE, before)
    with speed.empty_kernel_cache():
        folder = Path(os.environ[speed.KERNEL_CACHE])
        assert list(folder.iterdir()) == []
    assert not folder.exists()
    assert os.environ.get(speed.KERNEL_CACHE) == before
