"""Thousands of classes: metrics in one pass without a matrix of classes by classes, nothing quadratic."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from procrustean import fit
from procrustean.base import ConfigError
from procrustean.data import ImageSet, Splits, build, select
from procrustean.data.sets.data_set_table import known
from procrustean.engine import evaluation
from procrustean.engine.evaluation import metrics_of

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def scored(classes: int, images: int, seed: int = 0) -> Batches:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(images, classes, generator=random)
    labels = torch.randint(classes, (images,), generator=random)
    scores[torch.arange(images), labels] += 1.0
    return [(scores[start : start + 64], labels[start : start + 64]) for start in range(0, images, 64)]


@pytest.mark.parametrize("classes", [3, 7, 40])
def test_totals_are_those_of_the_confusion_matrix(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, counts = scored(classes, 500), list(range(classes, 0, -1))
    whole = metrics_of(batches, counts)
    monkeypatch.setattr(evaluation, "LARGEST_STORED_CONFUSION", classes - 1)
    without = metrics_of(batches, counts)
    assert whole.confusion is not None
    assert without == replace(whole, confusion=None)


def test_as_many_classes_as_inaturalist_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        evaluation, "metrics_from_confusion", lambda *arguments: pytest.fail("a matrix of classes by classes")
    )
    counts = known("inaturalist18").counts["train"]
    labels = torch.arange(8142).repeat(1)
    scores = torch.zeros(8142, 1).expand(-1, 8142)
    began = time.perf_counter()
    batches = [
        (scores[s : s + 250] + torch.nn.functional.one_hot(labels[s : s + 250], 8142), labels[s : s + 250])
        for s in range(0, 2000, 250)
    ]
    metrics = metrics_of(batches, counts)
    assert metrics.images == 2000
    assert metrics.accuracy == 1.0
    assert metrics.top5 == 1.0
    assert metrics.recall[2000:] == [None] * 6142
    assert time.perf_counter() - began < 20


def test_selections_of_many_classes_are_those_of_one_class_at_a_time() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 300, 9000)
    counts = np.bincount(labels, minlength=300) // 2
    chosen, wanted = select(labels, counts, seed=3), []
    legacy = np.random.RandomState(3)
    for label, count in enumerate(counts):
        positions = np.flatnonzero(labels == label)
        legacy.shuffle(positions)
        wanted.append(positions[:count])
    assert np.array_equal(chosen, np.concatenate(wanted))


def named(classes: int) -> Splits:
    labels = np.repeat(np.arange(classes), 2)
    images = ImageSet(np.zeros((2 * classes, 4, 4, 1), np.uint8), labels, tuple(f"species {i}" for i in range(classes)))
    return Splits("many", images, images.subset(np.arange(0, 2 * classes, 2)))


def test_thousands_of_names_do_not_fill_the_screen(tmp_path: Any) -> None:
    from procrustean.data.describe import describe
    from procrustean.records import RunSpec
    from procrustean.runs.preparing import prepare

    splits = named(3000)
    prepared = prepare(RunSpec(source="many", method="erm", net="small", device="cpu"), splits=splits)
    assert "(3,000 in all)" in prepared.data_text()
    assert len(prepared.data_text()) < 400
    text = describe(splits, build(splits, imbalance="natural"))
    assert len(text.splitlines()) < 60


def test_more_random_numbers_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("procrustean.runs.preparing.free_bytes", lambda device: 12 * 100 * 50 - 1)
    settings: dict[str, Any] = {"net": "small", "device": "cpu", "epochs": 1, "run_dir": tmp_path / "run"}
    with pytest.raises(ConfigError, match=r"SEQL draws 50 random numbers for each of 100 images, 6e-05 GB an epoch"):
        fit(named(50), method="seql", **settings)
    assert not (tmp_path / "run").exists()


def test_of_equal_scores_the_first_classes_are_the_top_five() -> None:
    labels = torch.arange(8)
    assert metrics_of([(torch.zeros(8, 8), labels)], [1] * 8).top5 == 5 / 8
    scores = torch.zeros(8, 8)
    scores[:, 7] = 1  # before all others, so that only four of the equal ones are left
    found = metrics_of([(scores, labels)], [1] * 8)
    assert found.top5 == 5 / 8
    assert found.confusion is not None
    assert [row[7] for row in found.confusion] == [1] * 8
