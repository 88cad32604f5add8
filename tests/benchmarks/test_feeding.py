"""The benchmark of feeding measures what it says, on the CPU, with tiny stores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from feeding import CASES, Case, Feeding, ReadyBatch, bench_data, synthetic_images
from measuring import main
from procrustean.data import ImageSet
from procrustean.engine.device import place

TINY = Case("small", 48, 12, 8, 5, 8, "pad_crop_flip")


@pytest.mark.slow
def test_every_variant_is_measured_against_the_network_alone(tmp_path: Path) -> None:
    kept: list[int] = []
    cases = {
        "window": TINY,
        "resized": replace(TINY, augment="random_resized_crop", colour_jitter=0.4),
        "strong": replace(TINY, augment="strong", crop=12, padding=2),
    }
    result = bench_data(
        cases,
        device="cpu",
        workers=(1, 2),
        steps=2,
        repeats=2,
        folder=tmp_path,
        keep=lambda so_far: kept.append(sum(len(case["rows"]) for case in so_far["cases"].values())),
    )
    variants = [[row["variant"] for row in case["rows"]] for case in result["cases"].values()]
    streamed = ["streamed, 1 worker", "streamed, 2 workers"]
    assert variants == [["ready batch", "resident", *streamed]] * 2 + [["ready batch", *streamed]]
    for case in result["cases"].values():
        own = case["rows"][0]["images_per_second"]
        for row in case["rows"]:
            assert row["share"] == pytest.approx(row["images_per_second"] / own)
            assert len(row["ms_per_step"]) == 2
            assert row["cores_busy"] > 0
    assert kept == list(range(1, 12))
    assert list(tmp_path.iterdir()) == [], "the files are removed"
    assert json.loads(json.dumps(result)) == result


def test_the_ready_batch_is_what_the_network_takes() -> None:
    images = ImageSet(np.zeros((20, 12, 12, 3), np.uint8), np.zeros(20, np.int64), ("a",))
    ready = ReadyBatch(images, TINY.recipe, place("cpu", "bf16"))
    x = ready.augmented(torch.arange(5), {})
    assert (x.shape, x.dtype) == ((5, 3, 8, 8), torch.bfloat16)
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_stores_have_the_size_of_real_ones(tmp_path: Path) -> None:
    assert {name: case.images for name, case in CASES.items()} == {
        "tiny-imagenet": 100_000,
        "imagenet-lt": 115_846,
        "imagenet-lt-resized": 115_846,
        "cifar-strong": 12_406,
    }
    images = synthetic_images(TINY, tmp_path, lambda text: None)
    assert images.images.shape == (48, 12, 12, 3)
    assert images.images[:].std() > 60
    assert images.counts.tolist() == [10, 10, 10, 9, 9]


@pytest.mark.slow
def test_the_script_prints_a_table_and_keeps_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "data.json"
    flags = ["--net", "small", "--images", "40", "--batch-size", "8", "--device", "cpu", "--workers", "1"]
    times = ["--steps", "1", "--repeats", "1", "--output", str(output)]
    assert main(Feeding, ["--cases", "tiny-imagenet", *flags, *times]) == 0
    assert "of the network's own speed" in capsys.readouterr().out
    rows = json.loads(output.read_text())["cases"]["tiny-imagenet"]["rows"]
    assert [row["workers"] for row in rows] == [None, None, 1]
