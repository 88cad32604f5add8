"""The published counts that the package carries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from procrustean.data import long_tailed_counts, step_counts
from procrustean.data.sets.data_set_table import known
from procrustean.data.sets.tiered_imagenet import SPLITS, tiered_classes


def test_imagenet_lt() -> None:
    counts = known("imagenet-lt").counts
    assert (len(counts["train"]), sum(counts["train"]), max(counts["train"]), min(counts["train"])) == (
        1000,
        115846,
        1280,
        5,
    )
    assert max(counts["train"]) / min(counts["train"]) == 256
    assert (sum(counts["val"]), sum(counts["test"])) == (20_000, 50_000)


def test_inaturalist() -> None:
    counts = known("inaturalist18").counts
    assert (len(counts["train"]), sum(counts["train"]), max(counts["train"]), min(counts["train"])) == (
        8142,
        437513,
        1000,
        2,
    )
    assert sum(counts["test"]) == 24_426


@pytest.mark.parametrize(("rho", "long_tailed", "step", "smallest"), [(10, 39072, 55000, 50), (100, 21549, 50500, 5)])
def test_tiny_imagenet(rho: int, long_tailed: int, step: int, smallest: int) -> None:
    largest, classes = known("tiny-imagenet").counts["train"][0], 200
    assert sum(known("tiny-imagenet").counts["test"]) == 10_000
    for rule, total in ((long_tailed_counts, long_tailed), (step_counts, step)):
        counts = rule(largest, classes, rho)
        assert (sum(counts), min(counts)) == (total, smallest)


def test_tiered_imagenet() -> None:
    names = {split: tiered_classes(split) for split in SPLITS}
    assert {split: len(of_split) for split, of_split in names.items()} == {"train": 351, "val": 97, "test": 160}
    assert len({name for of_split in names.values() for name in of_split}) == 608
    assert known("tiered-imagenet").groups == {"train": 448_695, "val": 124_261, "test": 206_209}
    assert all(name.startswith("n") and len(name) == 9 for of_split in names.values() for name in of_split)


def test_they_are_the_published_lists(shared_dir: Path) -> None:
    lists = shared_dir / "data" / "lists"
    for name, file in (("imagenet-lt", "ImageNet_LT"), ("inaturalist18", "iNaturalist18")):
        published = json.loads((lists / f"{file}_train_cls_num.json").read_text())
        assert known(name).counts["train"] == tuple(published)
    for split in SPLITS:
        published = (lists / f"tieredImageNet_{split}.csv").read_text().split()
        assert tiered_classes(split) == tuple(line.split(",")[0] for line in published)
